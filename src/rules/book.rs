// SPDX-License-Identifier: GPL-3.0-or-later
//! All rules that hold now: the lasting ones from the user's file, and those of calls, turns and
//! chats, which live in memory. When the file can't be read, every call asks.

use std::path::Path;

use super::decide::{DANGEROUS_ASKS, Explanation, Outcome, decide};
use super::matching::Compiled;
use super::rule::PASSING_FROM;
use super::{
    BadRule, Effect, OtherArguments, Rule, RuledCall, Scope, Store, StoreError, TurnPlace,
};

type Ready = (Rule, Compiled);

/// The rules, and the file that the lasting ones are in.
#[derive(Debug)]
pub struct RuleBook {
    store: Store,
    /// Or why they can't be read.
    lasting: Result<Vec<Ready>, StoreError>,
    passing: Vec<Ready>,
    /// The number of the last rule that is only in memory.
    last_passing: u64,
    generation: u64,
}

impl RuleBook {
    /// The rules in FILE, which need not exist yet. A file that can't be used makes a book in
    /// which every call asks; [`RuleBook::trouble`] says why.
    #[must_use]
    pub fn open(file: &Path) -> Self {
        let mut book = Self {
            store: Store::new(file),
            lasting: Ok(Vec::new()),
            passing: Vec::new(),
            last_passing: PASSING_FROM,
            generation: 0,
        };
        book.reload();
        book
    }

    /// The file of lasting rules. Tools must not change it: see `files::private`.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.store.file()
    }

    /// Reads the file again, if it was changed.
    pub fn reload(&mut self) {
        if let Some(loaded) = self.store.load_if_changed() {
            self.take(loaded);
        }
    }

    /// A number that grows with every change of the rules: what they said is what they say as long as
    /// it is the same.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Why the file can't be used.
    #[must_use]
    pub fn trouble(&self) -> Option<&StoreError> {
        self.lasting.as_ref().err()
    }

    /// All rules, the lasting ones first.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.ready().map(|(rule, _)| rule)
    }

    /// Takes RULE and returns its number; a lasting one is in the file then.
    ///
    /// # Errors
    ///
    /// The rule can't be used, or the file can't be read or written; then nothing changed.
    pub fn add(&mut self, mut rule: Rule) -> Result<u64, StoreError> {
        rule.check()?;
        if rule.scope.lasts() {
            let (rules, id) = self.store.update(|rules| {
                let id = rules.iter().map(|it| it.id).max().unwrap_or(0) + 1;
                rule.id = id;
                rules.push(rule);
                id
            })?;
            self.take(Ok(rules));
            Ok(id)
        } else {
            let compiled = Compiled::new(&rule)?;
            self.last_passing += 1;
            rule.id = self.last_passing;
            self.passing.push((rule, compiled));
            self.generation += 1;
            Ok(self.last_passing)
        }
    }

    /// Takes rule ID back; false when there is none.
    ///
    /// # Errors
    ///
    /// The file can't be read or written; then nothing changed.
    pub fn revoke(&mut self, id: u64) -> Result<bool, StoreError> {
        if self.forget_where(|rule| rule.id == id) {
            return Ok(true);
        }
        let (rules, revoked) = self.store.update(|rules| {
            let before = rules.len();
            rules.retain(|rule| rule.id != id);
            rules.len() < before
        })?;
        self.take(Ok(rules));
        Ok(revoked)
    }

    /// Forgets the rules of a call, a turn or a chat that is over.
    pub fn forget(&mut self, scope: &Scope) {
        self.forget_where(|rule| rule.scope == *scope);
    }

    /// Forgets the rules in memory that are OVER; false when none is.
    fn forget_where(&mut self, over: impl Fn(&Rule) -> bool) -> bool {
        let before = self.passing.len();
        self.passing.retain(|(rule, _)| !over(rule));
        let forgotten = self.passing.len() < before;
        self.generation += u64::from(forgotten);
        forgotten
    }

    /// What happens to CALL, and by which rule.
    #[must_use]
    pub fn explain(&self, call: &RuledCall<'_>) -> Explanation {
        let rules = self.ready().map(|(rule, compiled)| (rule, compiled));
        let mut explanation = decide(rules, call);
        let Err(trouble) = &self.lasting else {
            return explanation;
        };
        match explanation.outcome {
            Outcome::Run => {
                explanation.outcome = Outcome::Ask;
                explanation.rule = None;
                explanation.reason = trouble.to_string();
            }
            // A rule that nobody can read might have let it run.
            Outcome::Ask if explanation.reason == DANGEROUS_ASKS => {
                explanation.reason = trouble.to_string();
            }
            Outcome::Ask | Outcome::Deny => {}
        }
        explanation
    }

    /// What happens to CALL.
    #[must_use]
    pub fn decide(&self, call: &RuledCall<'_>) -> Outcome {
        self.explain(call).outcome
    }

    /// Whether a rule denies every call of TOOL in a chat at PLACE, so that it need not be offered.
    #[must_use]
    pub fn denies_all(&self, tool: &str, place: &TurnPlace) -> bool {
        let bare = |rule: &Rule| {
            let free = rule.arguments.is_empty() && rule.other_arguments == OtherArguments::Any;
            let anywhere =
                rule.path.is_none() && rule.package.is_none() && rule.connection.is_none();
            free && anywhere && rule.client.is_none() && rule.alarms.is_empty()
        };
        let holds = |scope: &Scope| match scope {
            Scope::Once(_) | Scope::Turn(_) => false,
            Scope::Chat(chat) => *chat == place.chat,
            Scope::Project(root) => place.project.as_ref() == Some(root),
            Scope::Always => true,
        };
        self.ready().any(|(rule, compiled)| {
            rule.effect == Effect::Deny
                && holds(&rule.scope)
                && compiled.is_about(tool)
                && bare(rule)
        })
    }

    fn ready(&self) -> impl Iterator<Item = &Ready> {
        self.lasting.iter().flatten().chain(&self.passing)
    }

    fn take(&mut self, loaded: Result<Vec<Rule>, StoreError>) {
        self.generation += 1;
        self.lasting = loaded.and_then(|rules| {
            let ready = rules.into_iter().map(|rule| {
                let compiled = Compiled::new(&rule)?;
                Ok((rule, compiled))
            });
            ready
                .collect::<Result<_, BadRule>>()
                .map_err(StoreError::from)
        });
    }
}
