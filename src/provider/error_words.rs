// SPDX-License-Identifier: GPL-3.0-or-later
//! What the words of servers' errors mean. Each judgment reads all texts and codes of a report, whatever
//! error they were in. Pure; `refusal` and `retry` go by it.

use super::error_report::ErrorReport;

/// What a refusal is about, as far as its words are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The conversation is too long for the model.
    TooLong,
    /// One request has more tokens than the account may send in a minute.
    TooMuchAtOnce,
    /// There is no model of that name, or nothing at that URL.
    NoModel,
    /// The model can't call tools.
    NoTools,
    /// The server was started without what it needs for tools.
    NoParser,
    /// The server could not read what the model wrote as a call.
    UnreadCall,
    /// The key of the request is wrong or missing.
    Key,
    /// The key is wrong that the server has for the host behind it.
    UpstreamKey,
    /// The server doesn't serve this place.
    Place,
    /// The account may not use this, as it is.
    Account,
    /// The quota of a day is used up.
    Day,
    /// The machine has too little memory for the model.
    Memory,
    /// Nothing that is known.
    Unknown,
}

/// Alternatives, each of words that all have to be there.
type Words = &'static [&'static [&'static str]];

const TOO_LONG_CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "request_too_large",
    "model_max_prompt_tokens_exceeded",
    "string_above_max_length",
    "array_above_max_length",
    "tokens_limit_reached",
    "contextwindowexceedederror",
    "model_context_window_exceeded",
    "context_window_exceeded",
    "prompt_too_long",
    "input_too_long",
    "1261",
];

const TOO_LONG: Words = &[
    &["context length"],
    &["context window"],
    &["context size"],
    &["context limit"],
    &["contextwindowexceeded"],
    &["length of context"],
    &["max_model_len"],
    &["max_seq_len"],
    &["maximum model length"],
    &["maximum number of tokens"],
    &["maximum prompt length"],
    &["maximum input length"],
    &["max input length"],
    &["max sequence length"],
    &["model token limit"],
    &["reduce the length"],
    &["shorten the prompt"],
    &["prompt", "too long"],
    &["prompt", "too large"],
    &["prompt", "exceeds max length"],
    &["prompt", "exceeds the limit"],
    &["prompt", "exceeds the maximum"],
    &["prompt", "longer than"],
    &["input is too long"],
    &["input too long"],
    &["input length", "exceed"],
    &["input length", "should be"],
    &["input_length", "exceed"],
    &["input tokens", "exceed"],
    &["input tokens", "maximum"],
    &["input token count", "exceed"],
    &["input characters", "exceed"],
    &["input text", "too long"],
    &["requested token count exceeds"],
    &["request tokens exceed"],
    &["total tokens", "exceed"],
    &["conversation is too long"],
    &["messages", "too long"],
    &["message", "too long", "maximum length"],
    &["string too long"],
    &["array too long", "messages"],
    &["too many tokens"],
    &["token limit exceeded"],
    &["prompt_tokens", "must be less than"],
    &["input", "tokens", "must be less than"],
    &["maximum allowed input length"],
    &["exceeds the maximum size"],
    &["inputs", "max_new_tokens", "must be <="],
    &["inputs", "must have less than", "tokens"],
    &["tokens to keep", "greater than"],
    &["body too large", "tokens"],
    &["request entity too large"],
    &["payload too large"],
    &["too many total text bytes"],
    &["supports context up to"],
    &["expected a maximum of", "tokens"],
    &["token count exceeds"],
    &["input", "exceeds the model's max length"],
    &["tokens limit exceeded"],
    &["max_tokens must be at least 1, got -"],
    &["最大上下文"],
    &["上下文长度"],
    &["输入长度"],
    &["超出最大长度"],
];

/// What limits of tokens in a time say, which may read like the above.
const RATE: Words = &[
    &["per minute"],
    &["per-minute"],
    &["per min"],
    &["per second"],
    &["per hour"],
    &["per day"],
    &["rate limit"],
    &["rate-limit"],
    &["ratelimit"],
    &["rate_limit"],
    &["too many requests"],
    &["requests limit reached"],
];

const BUSY: Words = &[
    &["overloaded"],
    &["at capacity"],
    &["high demand"],
    &["too many requests"],
];

/// Quotas that are full again on the next day.
const DAY: Words = &[
    &["per day"],
    &["per-day"],
    &["perday"],
    &["daily"],
    &["(tpd)"],
    &["(rpd)"],
];

const MEMORY: Words = &[
    &["requires more system memory"],
    &["requires more gpu memory"],
    &["model requires more", "memory"],
    &["insufficient memory to load"],
];

const NO_PARSER: Words = &[
    &["--jinja"],
    &["--tool-call-parser"],
    &["--enable-auto-tool"],
];

const NO_TOOLS: Words = &[
    &["not support tool"],
    &["not support function"],
    &["support tool use"],
    &["tools is not supported"],
    &["tools are not supported"],
    &["tool use is not supported"],
    &["tool calling is not supported"],
    &["`tool calling` is not supported"],
    &["function calling is not enabled"],
    &["function calling is not supported"],
];

const NO_MODEL_CODES: &[&str] = &["model_not_found", "invalid_model", "model_not_available"];
const NO_MODEL: Words = &[
    &["not a valid model"],
    &["invalid model"],
    &["no such model"],
    &["unknown model"],
    &["model", "does not exist"],
    &["model not found"],
];

const KEY_CODES: &[&str] = &[
    "api_key_invalid",
    "invalid_api_key",
    "invalid_authentication",
    "authentication_error",
];
const KEY: Words = &[
    &["api key"],
    &["api-key"],
    &["apikey"],
    &["access token"],
    &["bearer"],
    &["credential"],
    &["authenticat"],
    &["login fail"],
];

const PLACE_CODES: &[&str] = &["unsupported_country_region_territory"];
const PLACE: Words = &[
    &["country"],
    &["region"],
    &["territory"],
    &["user location"],
    &["not available in your"],
    &["your location"],
    &["ip address"],
];

const ACCOUNT_CODES: &[&str] = &[
    "service_disabled",
    "usage_not_included",
    "billing_not_active",
];
const ACCOUNT: Words = &[
    &["plan"],
    &["subscri"],
    &["upgrade"],
    &["has not been used in project"],
    &["is disabled"],
    &["not enabled"],
    &["accept the terms"],
    &["terms of service"],
    &["not have access"],
    &["not allowed to"],
    &["permission"],
    &["be verified"],
    &["verify your"],
    &["guardrail"],
    &["data policy"],
    &["moderation"],
];

/// How servers say of a field that they don't take it.
const UNWANTED: Words = &[
    &["support"],
    &["unknown"],
    &["unrecogni"],
    &["unexpected"],
    &["extra"],
    &["not permitted"],
    &["not allowed"],
    &["forbidden"],
    &["not recogni"],
    &["no longer"],
    &["deprecated"],
    &["invalid"],
    &["additional propert"],
    &["cannot find field"],
    &["not a valid"],
    &["cannot be disabled"],
    &["can't be disabled"],
    &["mandatory"],
];

/// Fields that an answer can be had without, and what servers call them.
const OPTIONAL: &[(&str, &[&str])] = &[
    ("stream_options", &["stream_options", "include_usage"]),
    ("parallel_tool_calls", &["parallel_tool_calls"]),
    ("tool_choice", &["tool_choice"]),
    (
        "toolConfig",
        &["toolconfig", "tool_config", "function_calling_config"],
    ),
    ("prompt_cache_key", &["prompt_cache_key"]),
    (
        "reasoning_effort",
        &[
            "reasoning_effort",
            "reasoning effort",
            "reasoning",
            "effort",
        ],
    ),
    ("reasoning", &["reasoning"]),
    ("include", &["include", "reasoning.encrypted_content"]),
    ("store", &["store"]),
    ("output_config", &["output_config", "effort"]),
    ("thinking", &["thinking"]),
    (
        "generationConfig",
        &["thinkingconfig", "thinking_config", "thinking"],
    ),
    ("think", &["think", "thinking"]),
];

impl ErrorReport {
    fn says(&self, words: Words) -> bool {
        let all = |words: &&[&str]| words.iter().all(|word| self.said.contains(word));
        words.iter().any(all)
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
    }

    /// Whether it is about how much is sent in a time.
    #[must_use]
    pub fn limits_rate(&self) -> bool {
        self.says(RATE) || self.codes.iter().any(|code| code.contains("rate_limit"))
    }

    /// Whether the server has too much to do.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.says(BUSY) || self.codes.iter().any(|code| code.contains("overloaded"))
    }

    /// Whether it is about what a provider signed itself, as after its keys or the route to it changed.
    #[must_use]
    pub fn refuses_seals(&self) -> bool {
        self.says(&[
            &["signature"],
            &["encrypted_content"],
            &["encrypted content"],
        ])
    }

    /// The field of a request that its server does not take, if the answer can be had without it. HAS says
    /// whether the request has a field.
    #[must_use]
    pub fn refused_field(&self, has: impl Fn(&str) -> bool) -> Option<&'static str> {
        if self.refuses_seals() || !self.says(UNWANTED) {
            return None;
        }
        let named = |names: &[&str]| names.iter().any(|name| names_word(&self.said, name));
        let mut optional = OPTIONAL.iter();
        let found = optional.find(|(field, names)| named(names) && has(field));
        found.map(|(field, _)| *field)
    }

    /// What a refusal with STATUS, or an error inside of an answer, is about.
    #[must_use]
    pub fn reason(&self, status: Option<u16>) -> RefusalReason {
        let limits_rate = self.limits_rate();
        if self.written.is_some() || self.has_code(&["tool_use_failed"]) {
            RefusalReason::UnreadCall
        } else if limits_rate && (status == Some(413) || self.says(&[&["request too large"]])) {
            RefusalReason::TooMuchAtOnce
        } else if limits_rate || status == Some(429) {
            match self.says(DAY) {
                true => RefusalReason::Day,
                false => RefusalReason::Unknown,
            }
        } else if status == Some(413) || self.has_code(TOO_LONG_CODES) || self.says(TOO_LONG) {
            RefusalReason::TooLong
        } else if self.says(MEMORY) {
            RefusalReason::Memory
        } else if self.says(NO_PARSER) {
            RefusalReason::NoParser
        } else if self.says(NO_TOOLS) {
            RefusalReason::NoTools
        } else if status == Some(404)
            || self.has_code(NO_MODEL_CODES)
            || status == Some(400) && self.says(NO_MODEL)
        {
            RefusalReason::NoModel
        } else {
            self.reason_by_account(status)
        }
    }

    fn reason_by_account(&self, status: Option<u16>) -> RefusalReason {
        let names_key =
            self.has_code(KEY_CODES) || self.says(&[&["api key", "valid"], &["incorrect api key"]]);
        match status {
            Some(401 | 403) if self.upstream.is_some() => RefusalReason::UpstreamKey,
            _ if self.has_code(PLACE_CODES) || self.says(&[&["user location"]]) => {
                RefusalReason::Place
            }
            Some(401) => RefusalReason::Key,
            None | Some(400 | 403) if names_key => RefusalReason::Key,
            Some(403) if self.says(PLACE) => RefusalReason::Place,
            Some(403) if self.has_code(ACCOUNT_CODES) || self.says(ACCOUNT) => {
                RefusalReason::Account
            }
            Some(403) if self.says(KEY) => RefusalReason::Key,
            _ => RefusalReason::Unknown,
        }
    }
}

/// Whether TEXT has WORD, and not only as a part of another.
fn names_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(is_part) && !text[start + word.len()..].starts_with(is_part)
    })
}
