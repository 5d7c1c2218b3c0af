// SPDX-License-Identifier: GPL-3.0-or-later
//! Why replies end: the words of all hosts in one table, and what each means. Whole is only what ended for a
//! reason in this table that is a good one; `draft` decides by it. Pure.

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    /// The reply met the token limit.
    Length,
    /// The conversation and the reply together fill the model's window.
    Window,
    /// The provider's filter ended it.
    ContentFilter,
    /// The model, or its provider, won't answer; the text says why, if it was said.
    Refused(String),
    /// The provider paused it: it goes on when it is sent back as it is.
    Paused,
    /// It was never completed: an error came, or the connection was lost. Only the partial reply
    /// of a [`ProviderError`](super::ProviderError) ends so.
    Interrupted,
    /// It ended for a reason that isn't known to be a good one, in the host's word.
    Early(String),
}

/// Reasons, in lower case and without `-`, `_` and blanks.
const REASONS: &[(&str, Finish)] = &[
    ("stop", Finish::Stop),
    ("stopped", Finish::Stop),
    ("stopsequence", Finish::Stop),
    ("stoptoken", Finish::Stop),
    ("end", Finish::Stop),
    ("endturn", Finish::Stop),
    ("eos", Finish::Stop),
    ("eostoken", Finish::Stop),
    ("complete", Finish::Stop),
    ("completed", Finish::Stop),
    ("done", Finish::Stop),
    // Ollama's, for requests without a message.
    ("load", Finish::Stop),
    ("unload", Finish::Stop),
    ("toolcalls", Finish::ToolCalls),
    ("toolcall", Finish::ToolCalls),
    ("tooluse", Finish::ToolCalls),
    ("functioncall", Finish::ToolCalls),
    ("functioncalls", Finish::ToolCalls),
    ("pauseturn", Finish::Paused),
    ("length", Finish::Length),
    ("limit", Finish::Length),
    ("maxtokens", Finish::Length),
    ("maxlength", Finish::Length),
    ("maxoutputtokens", Finish::Length),
    ("maxnewtokens", Finish::Length),
    ("maxcompletiontokens", Finish::Length),
    ("modellength", Finish::Length),
    ("tokenlimit", Finish::Length),
    ("incomplete", Finish::Length),
    ("modelcontextwindowexceeded", Finish::Window),
    ("contextwindowexceeded", Finish::Window),
    ("contextwindow", Finish::Window),
    ("contextlengthexceeded", Finish::Window),
    ("contextlength", Finish::Window),
    ("contextoverflow", Finish::Window),
    ("contentfilter", Finish::ContentFilter),
    ("contentfiltered", Finish::ContentFilter),
    ("guardrailintervened", Finish::ContentFilter),
    ("sensitive", Finish::ContentFilter),
    ("safety", Finish::ContentFilter),
    ("imagesafety", Finish::ContentFilter),
    ("recitation", Finish::ContentFilter),
    ("imagerecitation", Finish::ContentFilter),
    ("imageprohibitedcontent", Finish::ContentFilter),
    ("blocklist", Finish::ContentFilter),
    ("prohibitedcontent", Finish::ContentFilter),
    ("spii", Finish::ContentFilter),
    ("language", Finish::ContentFilter),
    ("modelarmor", Finish::ContentFilter),
    ("refusal", Finish::Refused(String::new())),
];

impl Finish {
    /// What a host's word for why a reply ended means; none when it is none, which an empty one and `null` are.
    #[must_use]
    pub fn for_reason(reason: &str) -> Option<Self> {
        let plain: String = reason
            .chars()
            .filter(|it| !matches!(it, '-' | '_') && !it.is_whitespace())
            .flat_map(char::to_lowercase)
            .collect();
        if matches!(plain.as_str(), "" | "null" | "none") {
            return None;
        }
        let known = REASONS.iter().find(|(known, _)| *known == plain);
        Some(known.map_or_else(
            || Self::Early(reason.trim().to_owned()),
            |(_, finish)| finish.clone(),
        ))
    }

    /// Whether a reply that ended so is whole, so that its calls may run.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Stop | Self::ToolCalls | Self::Paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_compared_without_case_and_signs() {
        for (word, finish) in [
            ("stop_sequence", Finish::Stop),
            ("EOS_TOKEN", Finish::Stop),
            ("Tool-Call", Finish::ToolCalls),
            ("MAX_TOKENS", Finish::Length),
            ("model_context_window_exceeded", Finish::Window),
            ("IMAGE_SAFETY", Finish::ContentFilter),
            ("abort", Finish::Early("abort".to_owned())),
            (
                "TOO_MANY_TOOL_CALLS",
                Finish::Early("TOO_MANY_TOOL_CALLS".to_owned()),
            ),
        ] {
            assert_eq!(Finish::for_reason(word), Some(finish), "{word}");
        }
        for word in ["", " ", "null", "None"] {
            assert_eq!(Finish::for_reason(word), None, "{word:?}");
        }
    }
}
