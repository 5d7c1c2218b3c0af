// SPDX-License-Identifier: GPL-3.0-or-later
//! What a turn may use up before its user is asked whether it goes on: requests, tokens, time, money. What its
//! research uses is a part of that. Pure; `turn` counts and asks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::runtime::held;

/// What a turn may use before it asks. None: as much as it likes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub requests: u32,
    pub tokens: Option<u64>,
    /// Of the model and of tools; the time in which a call waits for the user doesn't count.
    pub time: Option<Duration>,
    /// US dollars. What requests to models of unknown price cost is not counted.
    pub cost: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 50,
            tokens: None,
            time: None,
            cost: None,
        }
    }
}

/// What a turn, or a research in it, may use and has used.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    spent: Mutex<Spent>,
    /// That of the turn whose research it is.
    whole: Option<Arc<Budget>>,
}

impl Budget {
    #[must_use]
    pub fn of_turn(limits: Limits) -> Self {
        Self {
            limits,
            spent: Mutex::default(),
            whole: None,
        }
    }

    /// That of a research, which is a part of WHOLE and has LIMITS of its own.
    #[must_use]
    pub fn of_research(limits: Limits, whole: &Arc<Self>) -> Self {
        Self {
            whole: Some(Arc::clone(whole)),
            ..Self::of_turn(limits)
        }
    }

    /// Takes in a request that took TIME, TOKENS, sent and received, and COST dollars if that is known.
    pub fn request(&self, time: Duration, tokens: u64, cost: Option<f64>) {
        held(&self.spent).request(time, tokens, cost);
        if let Some(whole) = &self.whole {
            // Its time is that of the call that does the research.
            whole.request(Duration::ZERO, tokens, cost);
        }
    }

    /// Takes in tools that ran for TIME.
    pub fn tools(&self, time: Duration) {
        held(&self.spent).time += time;
    }

    /// Begins to count again: the user lets the turn go on.
    pub fn go_on(&self) {
        *held(&self.spent) = Spent::since_go_ahead();
    }

    /// What is used up, if the next request would be beyond the limits: a sentence.
    #[must_use]
    pub fn exceeded(&self) -> Option<String> {
        let spent = held(&self.spent);
        let Some(whole) = &self.whole else {
            let (used, option) = spent.used_up(&self.limits)?;
            return Some(format!("The turn has used {used} ({option})."));
        };
        if let Some((used, _)) = spent.used_up(&self.limits) {
            return Some(format!("The research has used {used}."));
        }
        // A turn that has made many requests lets a research that was begun come to an end.
        let limits = Limits {
            requests: u32::MAX,
            ..whole.limits
        };
        let mut all = held(&whole.spent).clone();
        all.time += spent.time;
        let (used, option) = all.used_up(&limits)?;
        Some(format!("The turn has used {used} ({option})."))
    }
}

/// What a turn has used since its user last let it go on.
#[derive(Debug, Clone, Default)]
struct Spent {
    since: Since,
    requests: u32,
    tokens: u64,
    time: Duration,
    cost: f64,
}

/// Since when a turn's use is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Since {
    #[default]
    Beginning,
    /// Its user let it go on.
    GoAhead,
}

impl Spent {
    /// Nothing yet, by a turn that its user lets go on.
    fn since_go_ahead() -> Self {
        Self {
            since: Since::GoAhead,
            ..Self::default()
        }
    }

    fn request(&mut self, time: Duration, tokens: u64, cost: Option<f64>) {
        self.requests += 1;
        self.cost += cost.unwrap_or(0.0);
        self.tokens = self.tokens.saturating_add(tokens);
        self.time += time;
    }

    /// What is used up, if the next request would be beyond LIMITS, and the option that says so.
    fn used_up(&self, limits: &Limits) -> Option<(String, &'static str)> {
        let more = match self.since {
            Since::Beginning => "",
            Since::GoAhead => "another ",
        };
        let used = |what: String, option| Some((format!("{more}{what}"), option));
        match limits {
            Limits { requests, .. } if self.requests >= *requests => {
                let plural = if self.requests == 1 { "" } else { "s" };
                used(
                    format!("{} request{plural}", self.requests),
                    "agent-q-max-iterations",
                )
            }
            Limits {
                tokens: Some(most), ..
            } if self.tokens >= *most => {
                used(format!("{} tokens", self.tokens), "agent-q-max-turn-tokens")
            }
            Limits {
                time: Some(most), ..
            } if self.time >= *most => used(
                format!("{} s of work", self.time.as_secs()),
                "agent-q-max-turn-seconds",
            ),
            Limits {
                cost: Some(most), ..
            } if self.cost >= *most => used(dollars(self.cost), "agent-q-max-turn-cost"),
            _ => None,
        }
    }
}

/// DOLLARS as text, to at least two digits that count, as the chat's header has them.
fn dollars(dollars: f64) -> String {
    match dollars < 0.1 {
        true => format!("${dollars:.4}"),
        false => format!("${dollars:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_said_with_its_option() {
        let limits = Limits {
            requests: 3,
            tokens: Some(100),
            time: Some(Duration::from_secs(60)),
            cost: Some(0.05),
        };
        let spent = Budget::of_turn(limits);
        assert_eq!(spent.exceeded(), None);
        spent.request(Duration::from_secs(1), 99, Some(0.02));
        assert_eq!(spent.exceeded(), None);
        let dear = Budget::of_turn(Limits {
            requests: 50,
            ..limits
        });
        dear.request(Duration::ZERO, 0, Some(0.0405));
        dear.request(Duration::ZERO, 0, None);
        assert_eq!(dear.exceeded(), None);
        dear.request(Duration::ZERO, 0, Some(0.01));
        assert_eq!(
            dear.exceeded().unwrap(),
            "The turn has used $0.0505 (agent-q-max-turn-cost)."
        );
        spent.tools(Duration::from_secs(59));
        assert_eq!(
            spent.exceeded().unwrap(),
            "The turn has used 60 s of work (agent-q-max-turn-seconds)."
        );
        spent.request(Duration::ZERO, 1, None);
        assert_eq!(
            spent.exceeded().unwrap(),
            "The turn has used 100 tokens (agent-q-max-turn-tokens)."
        );
        spent.request(Duration::ZERO, 0, None);
        assert_eq!(
            spent.exceeded().unwrap(),
            "The turn has used 3 requests (agent-q-max-iterations)."
        );
    }

    #[test]
    fn what_is_used_after_the_go_ahead_is_said_to_be_more() {
        let limits = Limits {
            cost: Some(0.5),
            ..Limits::default()
        };
        let spent = Budget::of_turn(limits);
        spent.go_on();
        spent.request(Duration::ZERO, 0, Some(0.602));
        assert_eq!(
            spent.exceeded().unwrap(),
            "The turn has used another $0.60 (agent-q-max-turn-cost)."
        );
    }

    #[test]
    fn what_a_research_uses_is_used_by_its_turn() {
        let limits = |requests, tokens| Limits {
            requests,
            tokens: Some(tokens),
            ..Limits::default()
        };
        let whole = Arc::new(Budget::of_turn(limits(3, 100)));
        let [one, other] = [0, 1].map(|_| Budget::of_research(limits(2, 1000), &whole));
        one.request(Duration::from_secs(5), 40, None);
        one.request(Duration::ZERO, 10, None);
        assert_eq!(one.exceeded().unwrap(), "The research has used 2 requests.");
        other.request(Duration::ZERO, 40, None);
        assert_eq!(
            other.exceeded(),
            None,
            "three requests are the turn's limit"
        );
        assert_eq!(
            whole.exceeded().unwrap(),
            "The turn has used 3 requests (agent-q-max-iterations)."
        );
        other.request(Duration::ZERO, 10, None);
        let hasty = Arc::new(Budget::of_turn(Limits {
            time: Some(Duration::from_secs(60)),
            ..Limits::default()
        }));
        hasty.tools(Duration::from_secs(20));
        let slow = Budget::of_research(Limits::default(), &hasty);
        slow.request(Duration::from_secs(40), 0, None);
        assert_eq!(
            slow.exceeded().unwrap(),
            "The turn has used 60 s of work (agent-q-max-turn-seconds)."
        );
        whole.go_on();
        let third = Budget::of_research(limits(2, 1000), &whole);
        third.request(Duration::ZERO, 100, None);
        assert_eq!(
            third.exceeded().unwrap(),
            "The turn has used another 100 tokens (agent-q-max-turn-tokens)."
        );
    }
}
