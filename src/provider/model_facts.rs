// SPDX-License-Identifier: GPL-3.0-or-later
//! What is known of models: what Emacs looked up in the catalogue and sends along with the provider, and
//! what only their names say: which levels of effort they know, how long a reply of theirs may be, and
//! what their templates refuse. Unknown facts stay unknown. Pure.

use Effort::{ExtraHigh, High, Low, Max, Medium, Minimal, None as Off};
use serde::Deserialize;

use super::history::{host_of, is_below};
use super::{Effort, ProviderSettings, Usage};

/// The facts of a model. None: unknown.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelFacts {
    /// Tokens of a request and its reply together.
    pub context_window: Option<u64>,
    /// Tokens of a request, where that is less.
    pub max_input: Option<u64>,
    /// Tokens of a reply.
    pub max_output: Option<u64>,
    /// Whether it can call tools.
    pub tools: Option<bool>,
    /// Whether it thinks before it answers.
    pub thinking: Option<bool>,
    /// Whether it takes images.
    pub vision: Option<bool>,
    pub prices: Option<Prices>,
    /// What requests with more input than some number of tokens cost, by that number.
    pub tiers: Vec<PriceTier>,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    /// Of input that comes out of the provider's cache; none: as other input.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Of input that goes into it; none: as other input.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

/// Prices of requests that are long.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTier {
    /// Tokens of input above which they hold.
    pub above: u64,
    pub prices: Prices,
}

impl ModelFacts {
    /// What USAGE, that of one request, costs in US dollars; none when no price is known.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        let tier = self
            .tiers
            .iter()
            .filter(|tier| usage.input_tokens > tier.above)
            .max_by_key(|tier| tier.above);
        let prices = tier.map(|tier| tier.prices).or(self.prices)?;
        let Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: read,
            cache_write_tokens: written,
        } = *usage;
        let fresh = input_tokens.saturating_sub(read).saturating_sub(written);
        let dollars = [
            (fresh, prices.input),
            (read, prices.cache_read.unwrap_or(prices.input)),
            (written, prices.cache_write.unwrap_or(prices.input)),
            (output_tokens, prices.output),
        ]
        .iter()
        .map(|(tokens, price)| *tokens as f64 * price)
        .sum::<f64>();
        Some(dollars / 1e6)
    }

    /// The most tokens of a request, as far as that is known.
    #[must_use]
    pub fn request_limit(&self) -> Option<u64> {
        self.context_window.into_iter().chain(self.max_input).min()
    }

    /// How long a reply may be, where PREFERRED would be long enough.
    #[must_use]
    pub fn reply_limit(&self, preferred: u64) -> u64 {
        self.max_output
            .map_or(preferred, |limit| limit.min(preferred))
    }
}

// What no catalogue says of models, and their names do.

/// In which way a model is told how hard to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// By one of these levels; where there are none, nothing can be said.
    Levels(&'static [Effort]),
    /// By tokens, from LEAST to MOST.
    Budget { least: u64, most: u64, rest: Rest },
}

/// Whether a model that thinks by a budget can be told not to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    Possible,
    Impossible,
}

/// Models of one family, from a version on.
struct Row<T> {
    /// A word of their names, behind which the version comes.
    family: &'static str,
    /// A part of their names; empty when that makes no difference.
    part: &'static str,
    from: Version,
    what: T,
}

type Version = (u32, u32);

const fn row<T>(family: &'static str, part: &'static str, from: Version, what: T) -> Row<T> {
    Row {
        family,
        part,
        from,
        what,
    }
}

const fn levels(
    family: &'static str,
    part: &'static str,
    from: Version,
    levels: &'static [Effort],
) -> Row<Knob> {
    row(family, part, from, Knob::Levels(levels))
}

const fn budget(
    family: &'static str,
    part: &'static str,
    from: Version,
    least: u64,
    most: u64,
    rest: Rest,
) -> Row<Knob> {
    row(family, part, from, Knob::Budget { least, most, rest })
}

/// Efforts. The first row that fits a model holds; of others nothing is known.
const EFFORTS: &[Row<Knob>] = &[
    levels(
        "claude",
        "fable",
        (0, 0),
        &[Low, Medium, High, ExtraHigh, Max],
    ),
    levels(
        "claude",
        "mythos",
        (0, 0),
        &[Low, Medium, High, ExtraHigh, Max],
    ),
    levels(
        "claude",
        "",
        (4, 7),
        &[Off, Low, Medium, High, ExtraHigh, Max],
    ),
    levels("claude", "", (4, 6), &[Off, Low, Medium, High, Max]),
    budget("claude", "", (3, 7), 1024, 32_768, Rest::Possible),
    levels("claude", "claude-3", (0, 0), &[]),
    levels("gemini", "", (3, 7), &[Low, Medium, High]),
    levels("gemini", "pro", (3, 1), &[Low, Medium, High]),
    levels("gemini", "pro", (3, 0), &[Low, High]),
    levels("gemini", "", (3, 0), &[Minimal, Low, Medium, High]),
    budget("gemini", "pro", (2, 5), 128, 32_768, Rest::Impossible),
    budget("gemini", "lite", (2, 5), 512, 24_576, Rest::Possible),
    budget("gemini", "", (2, 5), 1, 24_576, Rest::Possible),
    levels("gemini", "", (0, 0), &[]),
    levels("gpt", "oss", (0, 0), &[Low, Medium, High]),
    levels("gpt", "chat", (5, 1), &[Medium]),
    levels("gpt", "chat", (5, 0), &[]),
    levels("gpt", "pro", (5, 2), &[Medium, High, ExtraHigh]),
    levels("gpt", "pro", (5, 0), &[High]),
    levels("gpt", "astra", (6, 0), &[Low, Medium, High, ExtraHigh, Max]),
    levels("gpt", "", (5, 6), &[Off, Low, Medium, High, ExtraHigh, Max]),
    levels("gpt", "codex", (5, 2), &[Low, Medium, High, ExtraHigh]),
    levels("gpt", "codex-max", (5, 0), &[Low, Medium, High, ExtraHigh]),
    levels("gpt", "codex", (5, 0), &[Low, Medium, High]),
    levels("gpt", "", (5, 2), &[Off, Low, Medium, High, ExtraHigh]),
    levels("gpt", "", (5, 1), &[Off, Low, Medium, High]),
    levels("gpt", "", (5, 0), &[Minimal, Low, Medium, High]),
    levels("o1", "", (0, 0), &[Low, Medium, High]),
    levels("o3", "", (0, 0), &[Low, Medium, High]),
    levels("o4", "", (0, 0), &[Low, Medium, High]),
];

/// The most tokens of a reply, where a request has to say a number: a larger one is refused.
const REPLIES: &[Row<u64>] = &[
    row("claude", "opus", (4, 5), 64_000),
    row("claude", "opus", (4, 0), 32_000),
    row("claude", "", (3, 7), 64_000),
    row("claude", "", (3, 5), 8192),
    row("claude", "claude-3", (0, 0), 4096),
];

/// Models whose templates and hosts take only ids of nine letters and digits: words in their names.
const MISTRALS: &[&str] = &[
    "mistral",
    "ministral",
    "mixtral",
    "magistral",
    "codestral",
    "devstral",
    "pixtral",
];

impl Knob {
    /// The levels by which it is turned where there are only words.
    #[must_use]
    pub fn levels(self) -> &'static [Effort] {
        match self {
            Self::Levels(levels) => levels,
            Self::Budget {
                rest: Rest::Possible,
                ..
            } => &[Off, Low, Medium, High],
            Self::Budget {
                rest: Rest::Impossible,
                ..
            } => &[Low, Medium, High],
        }
    }

    /// The knob of MODEL, if that is known.
    #[must_use]
    pub fn of(model: &str) -> Option<Self> {
        looked_up(EFFORTS, model)
    }
}

/// The most tokens of a reply of MODEL, if that is known.
#[must_use]
pub fn reply_limit(model: &str) -> Option<u64> {
    looked_up(REPLIES, model)
}

/// What of LEVELS is meant by WISH: the next one below, or else above. Only who wants no thinking gets none.
#[must_use]
pub fn level(wish: Effort, levels: &[Effort]) -> Option<Effort> {
    let thinking = || levels.iter().copied().filter(|it| *it != Off);
    let below = thinking().filter(|it| *it <= wish).max();
    match levels.contains(&wish) {
        true => Some(wish),
        false => below.or_else(|| thinking().min()),
    }
}

/// The tokens that are meant by EFFORT.
#[must_use]
pub fn budget_of(effort: Effort) -> u64 {
    match effort {
        Off => 0,
        Minimal => 512,
        Low => 2048,
        Medium => 8192,
        High => 16_384,
        ExtraHigh => 24_576,
        Max => 32_768,
    }
}

/// Whether the ids of calls have to be of nine letters and digits.
#[must_use]
pub fn takes_short_ids(settings: &ProviderSettings) -> bool {
    is_below(&host_of(&settings.base_url), "mistral.ai") || is_one_of(&settings.model, MISTRALS)
}

/// Whether user and model have to take turns, with results between them or not.
#[must_use]
pub fn counts_turns(settings: &ProviderSettings) -> bool {
    takes_short_ids(settings) || is_one_of(&settings.model, &["gemma"])
}

/// Whether one of WORDS is in the name of MODEL.
#[must_use]
pub fn is_one_of(model: &str, words: &[&str]) -> bool {
    let model = model.to_ascii_lowercase();
    words.iter().any(|word| model.contains(word))
}

fn looked_up<T: Copy>(rows: &[Row<T>], model: &str) -> Option<T> {
    let name = model.to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    let fits = |row: &&Row<T>| {
        name.contains(row.part) && version(name, row.family).is_some_and(|it| it >= row.from)
    };
    rows.iter().find(fits).map(|row| row.what)
}

/// The version that NAME, of a model, tells behind the word FAMILY. The latest is newer than all.
fn version(name: &str, family: &str) -> Option<Version> {
    let mut words = name.split(|it: char| !it.is_ascii_alphanumeric());
    words.find(|word| *word == family)?;
    let mut rest = words.skip_while(|word| number(word).is_none() && *word != "latest");
    let major = match rest.next() {
        Some("latest") => u32::MAX,
        Some(word) => number(word).unwrap_or(0),
        None => 0,
    };
    Some((major, rest.next().and_then(number).unwrap_or(0)))
}

/// The number at the start of WORD. A date is none.
fn number(word: &str) -> Option<u32> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    match digits {
        1 | 2 => word[..digits].parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SONNET: Prices = Prices {
        input: 3.0,
        output: 15.0,
        cache_read: Some(0.3),
        cache_write: Some(3.75),
    };

    fn close(cost: Option<f64>, expected: f64) -> bool {
        cost.is_some_and(|cost| (cost - expected).abs() < 1e-9)
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let facts = ModelFacts {
            prices: Some(SONNET),
            ..ModelFacts::default()
        };
        let usage = Usage {
            input_tokens: 10_000,
            output_tokens: 1000,
            cache_read_tokens: 6000,
            cache_write_tokens: 3000,
        };
        let expected = 0.003 + 0.0018 + 0.01125 + 0.015;
        assert!(close(facts.cost(&usage), expected), "{facts:?}");
        let without = ModelFacts {
            prices: Some(Prices {
                cache_read: None,
                cache_write: None,
                ..SONNET
            }),
            ..ModelFacts::default()
        };
        assert!(close(without.cost(&usage), 0.03 + 0.015));
        assert_eq!(ModelFacts::default().cost(&usage), None);
    }

    #[test]
    fn a_long_request_has_the_price_of_its_tier() {
        let double = Prices {
            input: 6.0,
            ..SONNET
        };
        let facts = ModelFacts {
            prices: Some(SONNET),
            tiers: vec![PriceTier {
                above: 200_000,
                prices: double,
            }],
            ..ModelFacts::default()
        };
        let usage = |input_tokens| Usage {
            input_tokens,
            ..Usage::default()
        };
        assert!(close(facts.cost(&usage(200_000)), 0.6));
        assert!(close(facts.cost(&usage(200_001)), 1.200_006));
    }
}
