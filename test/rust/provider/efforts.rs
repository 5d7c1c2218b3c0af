// SPDX-License-Identifier: GPL-3.0-or-later
//! How hard models are asked to think, and how long a reply they are asked for: only what they know.

use agent_q_core::provider::dialect::request_body;
use agent_q_core::provider::{Dialect, Effort, MessagePart, ProviderSettings};
use serde_json::{Value, json};

use crate::matrix::{call, request, result, settings};
use crate::said::{answer, user};

fn with_effort(dialect: Dialect, model: &str, effort: Effort) -> Value {
    let settings = ProviderSettings {
        model: model.into(),
        effort: Some(effort),
        ..settings(dialect)
    };
    request_body(&settings, &request(vec![user("hi")]))
}

#[test]
fn effort_has_a_spelling_in_each_dialect() {
    let body = with_effort(Dialect::Messages, "claude-opus-5", Effort::High);
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"]["effort"], "high");
    for (model, effort, name) in [
        ("claude-opus-5", Effort::ExtraHigh, "xhigh"),
        ("claude-opus-4-6", Effort::ExtraHigh, "high"),
        ("claude-opus-4-6", Effort::Max, "max"),
    ] {
        let body = with_effort(Dialect::Messages, model, effort);
        assert_eq!(body["output_config"]["effort"], name, "{model}");
    }
    let body = with_effort(Dialect::ChatCompletions, "gpt-5.2", Effort::ExtraHigh);
    assert_eq!(body["reasoning_effort"], "xhigh");
    let body = with_effort(Dialect::Messages, "claude-opus-5", Effort::None);
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    let body = with_effort(Dialect::Messages, "claude-sonnet-4-5", Effort::Low);
    let budget = body["thinking"]["budget_tokens"]
        .as_u64()
        .expect("a budget");
    assert!((1024..body["max_tokens"].as_u64().unwrap()).contains(&budget));
    let body = with_effort(Dialect::Responses, "gpt-5", Effort::Minimal);
    assert_eq!(body["reasoning"]["effort"], "minimal");
    let body = with_effort(Dialect::ChatCompletions, "x", Effort::Low);
    assert_eq!(body["reasoning_effort"], "low");
    let body = with_effort(Dialect::Gemini, "gemini-3-pro", Effort::High);
    assert_eq!(
        body["generationConfig"]["thinkingConfig"]["thinkingLevel"],
        "high"
    );
    let body = with_effort(Dialect::Ollama, "gpt-oss:20b", Effort::High);
    assert_eq!(body["think"], "high");
    let body = with_effort(Dialect::Ollama, "qwen3:4b", Effort::High);
    assert_eq!(body["think"], true);
    for dialect in crate::matrix::DIALECTS {
        let body = request_body(&settings(dialect), &request(vec![user("hi")])).to_string();
        assert!(
            !body.contains("think") && !body.contains("effort"),
            "{body}"
        );
    }
}

/// The effort that MODEL is asked for in DIALECT, as far as it is a word.
fn word_of_effort(dialect: Dialect, model: &str, effort: Effort) -> Value {
    let body = with_effort(dialect, model, effort);
    let places = [
        "/reasoning_effort",
        "/reasoning/effort",
        "/output_config/effort",
        "/generationConfig/thinkingConfig/thinkingLevel",
        "/think",
    ];
    let mut words = places.iter().filter_map(|place| body.pointer(place));
    words.next().cloned().unwrap_or_default()
}

#[test]
fn effort_is_a_word_that_the_model_knows() {
    use Dialect::{ChatCompletions, Gemini, Messages, Ollama, Responses};
    use Effort::{ExtraHigh, High, Low, Max, Medium, Minimal, None as Off};
    for (model, effort, word) in [
        ("gpt-5", Max, json!("high")),
        ("gpt-5", Off, json!("minimal")),
        ("gpt-5-2025-08-07", ExtraHigh, json!("high")),
        ("gpt-5.1", Minimal, json!("low")),
        ("gpt-5.1-codex-max", Max, json!("xhigh")),
        ("gpt-5.1-codex-mini", ExtraHigh, json!("high")),
        ("gpt-5.2", Max, json!("xhigh")),
        ("gpt-5.6-sol", Max, json!("max")),
        ("gpt-6-astra", Off, json!("low")),
        ("gpt-5-pro", Low, json!("high")),
        ("openai/gpt-oss-120b", Max, json!("high")),
        ("o3-mini", ExtraHigh, json!("high")),
        ("o3", Off, json!("low")),
        ("somebody's", Max, json!("max")),
    ] {
        for dialect in [ChatCompletions, Responses] {
            let said = word_of_effort(dialect, model, effort);
            assert_eq!(said, word, "{dialect:?} {model} {effort:?}");
        }
    }
    for (dialect, model, effort, word) in [
        (Messages, "claude-fable-5", Off, json!("low")),
        (
            Messages,
            "anthropic/claude-opus-4.6",
            ExtraHigh,
            json!("high"),
        ),
        (Messages, "claude-opus-4-8-fast", ExtraHigh, json!("xhigh")),
        (
            Messages,
            "~anthropic/claude-sonnet-latest",
            Max,
            json!("max"),
        ),
        (Messages, "another", Minimal, json!("low")),
        (Gemini, "gemini-flash-latest", High, json!("high")),
        (Gemini, "gemini-flash-latest", Minimal, json!("low")),
        (Gemini, "gemini-3-flash-preview", Medium, json!("medium")),
        (Gemini, "gemini-3-pro-preview", Medium, json!("low")),
        (Gemini, "gemini-2.0-flash", High, Value::Null),
        (Ollama, "gpt-oss:120b", Minimal, json!("low")),
        (Ollama, "gemini-3-flash-preview:cloud", High, json!(true)),
    ] {
        let said = word_of_effort(dialect, model, effort);
        assert_eq!(said, word, "{dialect:?} {model} {effort:?}");
    }
}

#[test]
fn budgets_are_within_what_the_model_takes() {
    for (model, effort, budget) in [
        ("gemini-2.5-pro", Effort::None, 128),
        ("gemini-2.5-flash", Effort::None, 0),
        ("gemini-2.5-flash-lite", Effort::None, 0),
        ("gemini-2.5-flash-lite", Effort::Minimal, 512),
        ("gemini-2.5-flash", Effort::Max, 24_576),
        ("gemini-2.5-pro", Effort::Max, 32_768),
    ] {
        let body = with_effort(Dialect::Gemini, model, effort);
        let said = &body["generationConfig"]["thinkingConfig"]["thinkingBudget"];
        assert_eq!(*said, budget, "{model} {effort:?}");
    }
    for (model, effort, tokens, budget) in [
        ("claude-opus-4-1", Effort::High, 32_000, 16_384),
        ("anthropic/claude-opus-4.1", Effort::Max, 32_000, 24_000),
        ("anthropic/claude-opus-4", Effort::High, 32_000, 16_384),
        ("claude-opus-4@20250514", Effort::High, 32_000, 16_384),
        ("anthropic/claude-sonnet-4.5", Effort::Max, 48_768, 32_768),
        ("claude-3-7-sonnet-latest", Effort::Minimal, 17_024, 1024),
    ] {
        let body = with_effort(Dialect::Messages, model, effort);
        assert_eq!(body["max_tokens"], tokens, "{model}");
        assert_eq!(body["thinking"]["budget_tokens"], budget, "{model}");
    }
    let body = with_effort(Dialect::Messages, "claude-sonnet-4.5", Effort::None);
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    let body = with_effort(Dialect::Messages, "claude-3-haiku-20240307", Effort::High);
    assert_eq!(
        (&body["thinking"], &body["max_tokens"]),
        (&Value::Null, &json!(4096))
    );
}

#[test]
fn a_budget_is_less_than_the_reply_that_the_user_wants() {
    for (tokens, thinking) in [
        (8000, json!({"type": "enabled", "budget_tokens": 6000})),
        (1200, Value::Null),
    ] {
        let mut settings = ProviderSettings {
            model: "claude-sonnet-4-5".into(),
            effort: Some(Effort::High),
            ..settings(Dialect::Messages)
        };
        settings.body.insert("max_tokens".into(), tokens.into());
        let body = request_body(&settings, &request(vec![user("hi")]));
        assert_eq!(body["thinking"], thinking);
        settings.body.clear();
        settings.facts.max_output = Some(tokens);
        let body = request_body(&settings, &request(vec![user("hi")]));
        assert_eq!(
            (&body["thinking"], &body["max_tokens"]),
            (&thinking, &json!(tokens))
        );
    }
}

#[test]
fn calls_of_others_go_to_the_latest_gemini_with_a_word_for_their_signature() {
    let settings = ProviderSettings {
        model: "gemini-flash-latest".into(),
        ..settings(Dialect::Gemini)
    };
    let foreign = answer(Dialect::Ollama, vec![MessagePart::call(call("a", "{}"))]);
    let history = vec![user("hi"), foreign, result("a", "ok")];
    let body = request_body(&settings, &request(history));
    assert_eq!(
        body["contents"][1]["parts"][0]["thoughtSignature"],
        "skip_thought_signature_validator"
    );
}
