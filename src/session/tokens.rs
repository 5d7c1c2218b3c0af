// SPDX-License-Identifier: GPL-3.0-or-later
//! How many tokens a request will have. Nobody but the model's host can count them; what it counted for
//! earlier requests of the model gives a ratio, by which the next one is estimated.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::provider::{ChatMessage, ChatRequest, MessagePart, ModelOrigin, PartContent};
use crate::runtime::held;

/// Bytes per token of a model that nothing is known of. Code has fewer than prose.
const USUAL_RATIO: f64 = 3.3;

/// Bytes per token of prose in which every word is common.
const LARGEST_USUAL_RATIO: f64 = 5.0;

/// What a ratio can be; a host that reports another one doesn't count what it was sent.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1.0..=8.0;

/// Roles, marks and names, which take about as much as this of each message, in bytes.
const FRAME: usize = 16;

/// How many bytes each model has to a token.
#[derive(Debug, Default)]
pub struct TokenRatios(Mutex<HashMap<ModelOrigin, f64>>);

impl TokenRatios {
    /// Takes in that MODEL's host counted TOKENS in a request of so many BYTES.
    pub fn learn(&self, model: ModelOrigin, bytes: usize, tokens: u64) {
        let ratio = bytes as f64 / tokens.max(1) as f64;
        if PLAUSIBLE.contains(&ratio) {
            held(&self.0).insert(model, ratio);
        }
    }

    /// About how many tokens BYTES are for MODEL.
    #[must_use]
    pub fn estimate(&self, model: &ModelOrigin, bytes: usize) -> u64 {
        (bytes as f64 / self.ratio(model)).ceil() as u64
    }

    /// How many tokens BYTES are for MODEL at least.
    #[must_use]
    pub fn at_least(&self, model: &ModelOrigin, bytes: usize) -> u64 {
        let known = held(&self.0).get(model).copied();
        (bytes as f64 / known.unwrap_or(LARGEST_USUAL_RATIO)) as u64
    }

    /// About how many bytes TOKENS are for MODEL.
    #[must_use]
    pub fn bytes(&self, model: &ModelOrigin, tokens: u64) -> usize {
        (tokens as f64 * self.ratio(model)) as usize
    }

    fn ratio(&self, model: &ModelOrigin) -> f64 {
        held(&self.0).get(model).copied().unwrap_or(USUAL_RATIO)
    }
}

/// The bytes of REQUEST that a model reads.
#[must_use]
pub fn request_bytes(request: &ChatRequest) -> usize {
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.to_string().len())
        .sum();
    let messages: usize = request.messages.iter().map(message_bytes).sum();
    tools + messages
}

/// The bytes of MESSAGE that a model reads.
#[must_use]
pub fn message_bytes(message: &ChatMessage) -> usize {
    FRAME
        + match message {
            ChatMessage::System(text) | ChatMessage::User(text) => text.len(),
            ChatMessage::Tool { content, .. } => content.len(),
            ChatMessage::Assistant { parts, .. } => parts.iter().map(part_bytes).sum(),
        }
}

/// The bytes of PART that a model reads. Whether thinking goes back depends on the model; it counts.
#[must_use]
pub fn part_bytes(part: &MessagePart) -> usize {
    match &part.content {
        PartContent::Text(text) | PartContent::Thinking(text) => text.len(),
        PartContent::Call(call) => call.name.len() + call.raw_arguments.len() + FRAME,
        PartContent::Sealed => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_a_model_is_learnt() {
        let (ratios, model) = (TokenRatios::default(), ModelOrigin::default());
        assert_eq!(ratios.estimate(&model, 3300), 1000);
        assert_eq!(ratios.at_least(&model, 5000), 1000);
        ratios.learn(model.clone(), 4000, 1000);
        assert_eq!(ratios.estimate(&model, 8000), 2000);
        assert_eq!(ratios.at_least(&model, 8000), 2000);
        assert_eq!(ratios.bytes(&model, 2000), 8000);
        // Who counts 3 tokens in 4,000 bytes left out what was in a cache.
        ratios.learn(model.clone(), 4000, 3);
        assert_eq!(ratios.estimate(&model, 8000), 2000);
    }
}
