// SPDX-License-Identifier: GPL-3.0-or-later
//! What is known of a model: how much it takes, what it can do, what it costs. Emacs looks it up and
//! sends it along with the provider. What nobody knows stays unknown. Pure.

use serde::Deserialize;

use super::Usage;

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
