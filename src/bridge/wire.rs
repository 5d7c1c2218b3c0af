// SPDX-License-Identifier: GPL-3.0-or-later
//! Events and tools as Lisp values, replies as Rust ones: the only place that knows how they look
//! on the other side. Every event is a property list that starts with `:type`.

use std::sync::Arc;

use emacs::{Env, IntoLisp, Result, Value, Vector};

use super::text::Text;
use crate::call::metrics::{MetricsKey, Statistics};
use crate::protocol::{
    CallResult, Consent, DiscoveredServer, Done, EmacsError, EmacsReply, EmacsRequest, Event,
    ListedModel, PastPlace, SessionState, ToolCall, TurnOutcome,
};
use crate::provider::arguments::parse_arguments;
use crate::tool::{Origin, Parameter, Presence, Tool};
use crate::trust::SafetyLevel;

/// A property list in the making.
struct PlistBuilder<'e> {
    env: &'e Env,
    items: Vec<Value<'e>>,
}

impl<'e> PlistBuilder<'e> {
    fn new(env: &'e Env) -> Self {
        Self {
            env,
            items: Vec::with_capacity(16),
        }
    }

    fn event(env: &'e Env, kind: &str) -> Result<Self> {
        Self::new(env).keyword("type", kind)
    }

    fn put(mut self, name: &str, value: impl IntoLisp<'e>) -> Result<Self> {
        self.items.push(self.env.intern(&format!(":{name}"))?);
        self.items.push(value.into_lisp(self.env)?);
        Ok(self)
    }

    /// MODELS: their names, and the limits of those whose host says any.
    fn models(self, models: &[ListedModel]) -> Result<Self> {
        let env = self.env;
        let names: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
        let limits: Vec<Value<'e>> = models
            .iter()
            .filter(|model| model.context_window.is_some() || model.max_output.is_some())
            .map(|model| {
                let limit = |number: Option<u64>| number.and_then(|it| i64::try_from(it).ok());
                Self::new(env)
                    .put("model", &model.name)?
                    .put("window", limit(model.context_window))?
                    .put("output", limit(model.max_output))?
                    .list()
            })
            .collect::<Result<_>>()?;
        self.put("models", strings(env, &names)?)?
            .put("limits", env.list(&limits)?)
    }

    /// A piece of a stream. Emacs allocates a multibyte string twice, and collects garbage the
    /// sooner; for ASCII the cheap kind of string is the same.
    fn text(self, text: &str) -> Result<Self> {
        if text.is_ascii() {
            self.put("text", text.as_bytes())
        } else {
            self.put("text", text)
        }
    }

    fn keyword(self, name: &str, keyword: &str) -> Result<Self> {
        let keyword = self.env.intern(&format!(":{keyword}"))?;
        self.put(name, keyword)
    }

    fn number(self, name: &str, number: u64) -> Result<Self> {
        self.put(name, i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn result(self, result: &CallResult) -> Result<Self> {
        let milliseconds = result.elapsed.as_secs_f64() * 1000.0;
        self.put("id", &result.id)?
            .keyword("outcome", result.outcome.name())?
            .put("content", result.whole())?
            .put("milliseconds", milliseconds)?
            .put("level", result.level.map(SafetyLevel::name))?
            .keyword("consent", consent_name(result.consent))
    }

    fn list(self) -> Result<Value<'e>> {
        self.env.list(&self.items)
    }
}

/// EVENT as its property list.
pub fn event<'e>(env: &'e Env, event: &Event) -> Result<Value<'e>> {
    let kind = |name: &str| PlistBuilder::event(env, name);
    let of =
        |name: &str, session: &crate::protocol::SessionId| kind(name)?.number("session", session.0);
    match event {
        Event::State { session, state } => {
            of("state", session)?.keyword("state", state_name(*state))
        }
        Event::TurnStarted {
            session,
            turn,
            message,
            text,
            along,
        } => of("turn-started", session)?
            .number("turn", turn.0)?
            .put("message-id", message.map(|it| it.0 as i64))?
            .put("text", text)?
            .put("along", strings(env, along)?),
        Event::TurnUndone {
            session,
            turn,
            left,
            definitions,
            systems,
        } => of("turn-undone", session)?
            .number("turn", turn.0)?
            .number("left", *left as u64)?
            .put("definitions", strings(env, definitions)?)?
            .put("systems", strings(env, systems)?),
        Event::Text { session, text } => of("text", session)?.text(text),
        Event::Reasoning { session, text } => of("reasoning", session)?.text(text),
        Event::CallDrafted {
            session,
            number,
            tool,
            parameter,
            text,
        } => of("call-drafted", session)?
            .number("number", *number)?
            .put("tool", tool)?
            .put("parameter", parameter)?
            .text(text),
        Event::CallProposed {
            session,
            call,
            tool,
            arguments,
            after,
        } => of("call-proposed", session)?
            .number("call", call.0)?
            .put("tool", tool)?
            .put("arguments", arguments)?
            .put("after", after.map(|it| it.0 as i64)),
        Event::ApprovalRequested {
            session,
            call,
            tool,
            handler,
            level,
            reason,
            grounds,
            arguments,
        } => of("approval", session)?
            .number("call", call.0)?
            .put("tool", tool)?
            .put("handler", handler.map(|it| it.0 as i64))?
            .put("level", level.name())?
            .put("reason", reason)?
            .keyword("grounds", grounds.name())?
            .put("arguments", pretty(arguments)),
        Event::ApprovalChanged { session, call } => {
            of("approval-changed", session)?.number("call", call.0)
        }
        Event::ApprovalSettled {
            session,
            call,
            outcome,
        } => of("approval-settled", session)?
            .number("call", call.0)?
            .put("outcome", *outcome),
        Event::EffectDecided {
            session,
            request,
            question,
            decision,
        } => of("effect-decided", session)?
            .number("request", request.0)?
            .put("question", *question)?
            .put("decision", decision.name())?
            .put("reason", decision.reason().map(str::to_owned)),
        Event::CallStarted {
            session,
            call,
            tool,
            handler,
            arguments,
        } => of("call-started", session)?
            .number("call", call.0)?
            .put("tool", tool)?
            .put("handler", handler.map(|it| it.0 as i64))?
            .put("arguments", arguments.to_string()),
        Event::CallFinished {
            session,
            call,
            result,
        } => of("call-finished", session)?
            .number("call", call.0)?
            .result(result),
        Event::BatchFinished { batch, results } => {
            let results: Vec<Value<'e>> = results
                .iter()
                .map(|result| PlistBuilder::new(env).result(result)?.list())
                .collect::<Result<_>>()?;
            kind("batch-finished")?
                .number("batch", batch.0)?
                .put("results", env.list(&results)?)
        }
        Event::Explained { question, answer } => kind("explained")?
            .number("question", question.0)?
            .put("answer", answer.to_string()),
        Event::ProjectFiles { question, files } => {
            let answer = kind("project-files")?.number("question", question.0)?;
            match files {
                // One text: thousands of strings would each be a call into Emacs.
                Ok((files, more)) => answer.put("files", files.join("\n"))?.number("more", *more),
                Err(problem) => answer.put("problem", problem),
            }
        }
        Event::CacheLost { session, why } => of("cache-lost", session)?.put("why", *why),
        Event::LimitReached { session, text } => of("limit-reached", session)?.put("text", text),
        Event::WindowFilled {
            session,
            tokens,
            window,
        } => of("window-filled", session)?
            .number("tokens", *tokens)?
            .put("window", window.map(|it| it as i64)),
        Event::Summarized {
            session,
            messages,
            before,
            after,
            summary,
        } => of("summarized", session)?
            .put("messages", *messages as i64)?
            .number("before", *before)?
            .number("after", *after)?
            .put("summary", summary),
        Event::Steered {
            session,
            message,
            text,
            along,
        } => of("steered", session)?
            .put("message-id", message.map(|it| it.0 as i64))?
            .put("text", text)?
            .put("along", strings(env, along)?),
        Event::WindowShown { question, report } => {
            let answer = kind("window-shown")?.number("question", question.0)?;
            match report {
                Ok(report) => answer.put("report", report.to_string()),
                Err(problem) => answer.put("problem", problem),
            }
        }
        Event::RequestShown { question, request } => {
            let answer = kind("request-shown")?.number("question", question.0)?;
            match request {
                Ok(request) => answer.put("request", pretty(request)),
                Err(problem) => answer.put("problem", problem),
            }
        }
        Event::Usage {
            session,
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            cost,
        } => of("usage", session)?
            .number("input-tokens", *input_tokens)?
            .number("output-tokens", *output_tokens)?
            .number("cache-read-tokens", *cache_read_tokens)?
            .number("cache-write-tokens", *cache_write_tokens)?
            .put("cost", *cost),
        Event::Retrying {
            session,
            attempt,
            attempts,
            delay,
            reason,
        } => of("retrying", session)?
            .number("attempt", u64::from(*attempt))?
            .number("attempts", u64::from(*attempts))?
            .put("seconds", delay.as_secs_f64())?
            .put("reason", reason),
        Event::Notice { session, text } => of("notice", session)?.put("text", text),
        Event::TurnEnded { session, outcome } => {
            let why = match outcome {
                TurnOutcome::NoSuchModel(_) => Some("no-such-model"),
                TurnOutcome::FailedLong(_) | TurnOutcome::InterruptedLong(_) => Some("long"),
                _ => None,
            };
            let items = of("turn-ended", session)?
                .keyword("outcome", outcome.name())?
                .put("message", outcome.message())?;
            match why {
                Some(why) => items.keyword("why", why),
                None => Ok(items),
            }
        }
        Event::EmacsRequested {
            session,
            request,
            body,
        } => match body {
            EmacsRequest::Image(image) => of("image-call", session)?
                .number("request", request.0)?
                .put("operation", &image.operation)?
                .put("arguments", &image.arguments)?
                .put("seconds", image.deadline.as_secs_f64()),
            EmacsRequest::Operation {
                operation,
                arguments,
            } => of("emacs-call", session)?
                .number("request", request.0)?
                .put("operation", *operation)?
                .put("arguments", arguments.to_string()),
            EmacsRequest::Handler {
                handler,
                arguments,
                watch,
            } => of("tool-handler", session)?
                .put("watch", watch.clone())?
                .number("request", request.0)?
                .number("handler", handler.0)?
                .put("arguments", arguments.to_string()),
            // Served by the drain itself; it only gets here when nobody waits any more.
            EmacsRequest::ReadBuffer(_) | EmacsRequest::VisitedFile(_) => {
                kind("emacs-cancelled")?.number("request", request.0)
            }
        },
        Event::EmacsCancelled { request } => kind("emacs-cancelled")?.number("request", request.0),
        Event::Discovered { servers } => {
            kind("discovered")?.put("servers", servers_list(env, servers)?)
        }
        Event::Models { question, models } => {
            let event = kind("models")?.number("question", question.0)?;
            match models {
                Ok(models) => event.models(models),
                Err(unlisted) => event
                    .put("stage", &unlisted.stage)?
                    .put("problem", &unlisted.why),
            }
        }
        Event::ChatsAnswered { question, answer } => {
            let event = kind("chats-answered")?.number("question", question.0)?;
            match answer {
                Ok(answer) => event.put("answer", answer.to_string()),
                Err(problem) => event.put("problem", problem),
            }
        }
        Event::ChatResumed { session, about } => {
            of("chat-resumed", session)?.put("about", about.to_string())
        }
        Event::Rewound {
            session,
            turn,
            rewind,
        } => of("rewound", session)?
            .number("turn", turn.0)?
            .number("rewind", rewind.0),
        Event::Unwound { session, rewind } => of("unwound", session)?.number("rewind", rewind.0),
        Event::PastTurn {
            session,
            turn,
            name,
            at,
            events,
            older,
            place,
        } => {
            let events: Vec<Value<'e>> = events
                .iter()
                .map(|it| self::event(env, it))
                .collect::<Result<_>>()?;
            of("past-turn", session)?
                .number("turn", turn.0)?
                .put("name", name)?
                .put("at", *at as f64 / 1000.0)?
                .number("older", *older as u64)?
                .put("below", *place == PastPlace::Below)?
                .put("events", env.list(&events)?)
        }
        Event::Trouble { message } => kind("trouble")?.put("message", message),
        Event::Fault { message } => kind("fault")?.put("message", message),
    }?
    .list()
}

/// TOOLS as the property lists of `agent-q-core-tools`.
pub fn tools<'e>(env: &'e Env, tools: &[Arc<Tool>]) -> Result<Value<'e>> {
    let tools: Vec<Value<'e>> = tools
        .iter()
        .map(|it| tool(env, it))
        .collect::<Result<_>>()?;
    env.list(&tools)
}

/// TOOL as a property list.
pub fn tool<'e>(env: &'e Env, tool: &Tool) -> Result<Value<'e>> {
    let parameters: Vec<Value<'e>> = tool
        .parameters
        .iter()
        .map(|it| parameter(env, it))
        .collect::<Result<_>>()?;
    PlistBuilder::new(env)
        .put("name", &tool.name)?
        .put("description", &tool.description)?
        .put("level", tool.level.name())?
        .put("own-level", tool.own_level.name())?
        .put("origin", origin(&tool.origin))?
        .put("schema", tool.argument_schema().to_string())?
        .put("categories", strings(env, &tool.categories)?)?
        .put("parameters", env.list(&parameters)?)?
        .list()
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::BuiltIn => "built-in".to_owned(),
        Origin::EmacsLisp => "emacs-lisp".to_owned(),
        Origin::Image(name) => format!("image {name}"),
        Origin::Library(name) => format!("library {name}"),
    }
}

/// STATISTICS as a list of property lists, one for each tool.
pub fn statistics<'e>(env: &'e Env, statistics: &[(MetricsKey, Statistics)]) -> Result<Value<'e>> {
    let tools: Vec<Value<'e>> = statistics
        .iter()
        .map(|(key, statistics)| tool_statistics(env, key, statistics))
        .collect::<Result<_>>()?;
    env.list(&tools)
}

/// Times are milliseconds, nil where nothing ran.
fn tool_statistics<'e>(
    env: &'e Env,
    key: &MetricsKey,
    statistics: &Statistics,
) -> Result<Value<'e>> {
    let milliseconds = |time: Option<std::time::Duration>| time.map(|it| it.as_secs_f64() * 1000.0);
    PlistBuilder::new(env)
        .put("tool", &key.tool)?
        .put("library", key.library.clone())?
        .put("client", key.mcp_client.clone())?
        .number("calls", statistics.calls)?
        .number("failures", statistics.failures)?
        .number("denials", statistics.denials)?
        .number("cancellations", statistics.cancellations)?
        .put("median", milliseconds(statistics.median()))?
        .put("p95", milliseconds(statistics.p95()))?
        .number("result-bytes", statistics.result_bytes)?
        .list()
}

fn parameter<'e>(env: &'e Env, parameter: &Parameter) -> Result<Value<'e>> {
    let choices: Vec<String> = parameter
        .choices()
        .iter()
        .map(|choice| {
            choice
                .as_str()
                .map_or_else(|| choice.to_string(), str::to_owned)
        })
        .collect();
    PlistBuilder::new(env)
        .put("name", &parameter.name)?
        .put("type", parameter.kind.name())?
        .put("description", &parameter.description)?
        .put("required", parameter.presence == Presence::Required)?
        .put("choices", strings(env, &choices)?)?
        .list()
}

/// The tool calls that a program makes, given as vectors [ID NAME ARGUMENTS] of strings.
pub fn calls(given: Vector<'_>) -> Result<Vec<ToolCall>> {
    (0..given.len())
        .map(|index| {
            let call: Vector<'_> = given.get(index)?;
            let text = |at| call.get::<Text>(at).map(String::from);
            let raw_arguments = text(2)?;
            Ok(ToolCall {
                id: text(0)?,
                name: text(1)?,
                arguments: parse_arguments(&raw_arguments),
                raw_arguments,
            })
        })
        .collect()
}

/// The strings in GIVEN.
pub fn texts(given: Vector<'_>) -> Result<Vec<String>> {
    (0..given.len())
        .map(|index| given.get::<Text>(index).map(String::from))
        .collect()
}

/// The reply that Emacs's STATUS, PAYLOAD, NOTE and what it ADDED stand for.
pub fn reply(
    status: &str,
    payload: Option<Text>,
    note: Option<Text>,
    added: Option<Text>,
) -> EmacsReply {
    let text = payload.map(String::from).unwrap_or_default();
    let done = |text| {
        EmacsReply::Done(Done {
            text,
            note: note.map(String::from),
            added: added.map(String::from),
        })
    };
    EmacsReply::Failed(match status {
        "done" => return done(text),
        "no-connection" => EmacsError::NoConnection,
        "disconnected" => EmacsError::Disconnected(text),
        // The image's own report says what was printed and done until then.
        "timed-out" if !text.is_empty() => return done(text),
        "timed-out" => EmacsError::TimedOut,
        "deaf" => EmacsError::Deaf,
        "unresponsive" => EmacsError::Unresponsive(text),
        "aborted" => EmacsError::Aborted(text),
        _ => EmacsError::Signalled(text),
    })
}

pub fn strings<'e>(env: &'e Env, texts: &[String]) -> Result<Value<'e>> {
    let values: Vec<Value<'e>> = texts
        .iter()
        .map(|text| text.into_lisp(env))
        .collect::<Result<_>>()?;
    env.list(&values)
}

fn servers_list<'e>(env: &'e Env, servers: &[DiscoveredServer]) -> Result<Value<'e>> {
    let servers: Vec<Value<'e>> = servers
        .iter()
        .map(|server| {
            PlistBuilder::new(env)
                .put("name", &server.name)?
                .put("base-url", &server.base_url)?
                .models(&server.models)?
                .list()
        })
        .collect::<Result<_>>()?;
    env.list(&servers)
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn state_name(state: SessionState) -> &'static str {
    match state {
        SessionState::Idle => "idle",
        SessionState::Waiting => "waiting",
        SessionState::Streaming => "streaming",
        SessionState::Running => "running",
        SessionState::Approving => "approving",
        SessionState::Paused => "paused",
        SessionState::Summarizing => "summarizing",
    }
}

fn consent_name(consent: Consent) -> &'static str {
    match consent {
        Consent::NotNeeded => "not-needed",
        Consent::Approved => "approved",
        Consent::Modified => "modified",
        Consent::Unfit => "unfit",
        Consent::Denied => "denied",
        Consent::ByRule => "by-rule",
        Consent::Unavailable => "unavailable",
        Consent::Unanswered => "unanswered",
    }
}
