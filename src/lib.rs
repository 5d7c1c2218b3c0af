// SPDX-License-Identifier: GPL-3.0-or-later
//! agent-q's core: a dynamic module that Emacs loads. This file is the table of its Lisp entry
//! points and nothing else; see `bridge` for how they meet Emacs and `session` for what they drive.
//! The map of the rooms is in test/rust/rooms, which also keeps it true.

pub mod audit;
pub mod bridge;
pub mod builtin;
pub mod call;
pub mod chats;
pub mod diff;
pub mod effect;
pub mod engine;
pub mod event_queue;
pub mod exact;
pub mod files;
pub mod gram;
pub mod image;
pub mod json_schema;
pub mod log;
pub mod markdown;
pub mod mcp;
pub mod protocol;
pub mod provider;
pub mod rules;
pub mod runtime;
pub mod servers;
pub mod session;
pub mod tool;
pub mod trust;
pub mod visible;
pub mod workspace;

use std::time::Duration;

use emacs::{Env, IntoLisp, Result, Value, Vector, defun};

use bridge::text::Text;
use bridge::{agenda, core, signal, tell};
use call::batch::{Approval, Watcher};
use protocol::{
    BatchId, CallKey, Decider, MessageId, Op, Picture, RequestId, Sending, SessionId, UndoneTurn,
    UserMessage,
};

emacs::plugin_is_GPL_compatible!();

/// The number of this table; agent-q-module.el wants the same. Change both with any entry point.
pub const CORE_INTERFACE: i64 = 38;

/// How long Emacs's exit waits for the disk.
const SAVING_AT_EXIT: Duration = Duration::from_secs(1);

#[emacs::module(
    name = "agent-q-core",
    defun_prefix = "agent-q-core",
    mod_in_name = false,
    separator = "-"
)]
fn init(_: &Env) -> Result<()> {
    Ok(())
}

/// Return the number of the core's interface.
#[defun]
fn interface() -> Result<i64> {
    Ok(CORE_INTERFACE)
}

/// Start the core, and let it wake Emacs through PIPE, a pipe process.
/// Its log goes to LOG-FILE. Later calls only attach the pipe.
/// Signal `agent-q-error' when the threads or the log can't be had.
#[defun]
fn start<'e>(env: &'e Env, pipe: Value<'e>, log_file: Text) -> Result<bool> {
    bridge::start(env, pipe, &log_file)?;
    Ok(true)
}

/// Return the events that wait, oldest first, as property lists.
/// Take at most MOST-EVENTS, and stop after a text, a turn of a stored chat or BUDGET microseconds.
#[defun]
fn drain(env: &Env, most_events: i64, budget: i64) -> Result<Value<'_>> {
    let budget = Duration::from_micros(budget.try_into().unwrap_or(0));
    bridge::drain(env, most_events, budget)
}

/// Say that Emacs is going to drain the events and needs no waking; return t.
/// Return nil when it was woken already, and is at them or soon will be.
#[defun]
fn attend(env: &Env) -> Result<bool> {
    Ok(bridge::attend(core(env)?))
}

/// Say that the drained events are applied; return t when more are waiting.
#[defun]
fn ready(env: &Env) -> Result<bool> {
    Ok(bridge::ready(core(env)?))
}

/// Open a session with SETTINGS, a JSON object, and return its number.
/// STORE says where it is saved, or is nil where it is not: a JSON object of `directory', `emacs' (the
/// name of this Emacs in images' journals), and for a chat that is stored already its `id' and how
/// many `turns' are to be shown at first; those are events.
#[defun]
fn open_session(env: &Env, settings: Text, store: Option<Text>) -> Result<i64> {
    match core(env)?.engine.open_stored(&settings, store.as_deref()) {
        Ok(session) => Ok(session.0 as i64),
        Err(error) => signal(env, error),
    }
}

/// Change what SETTINGS, a JSON object, names of SESSION's settings.
#[defun]
fn configure(env: &Env, session: i64, settings: Text) -> Result<()> {
    let engine = &core(env)?.engine;
    engine
        .configure(session_id(session), &settings)
        .or_else(|error| signal(env, error))
}

/// Give SESSION the user's message TEXT; it waits while a turn runs.
/// CONTEXT, a JSON object or nil, says where the user is; only the model sees it. Return the message's number,
/// which the event has that says that it is read: `:turn-started' or `:steered'. Until then it can be taken
/// back.
#[defun]
fn submit(env: &Env, session: i64, text: Text, context: Option<Text>) -> Result<i64> {
    send(
        env,
        session,
        bridge::message(env, text, context, Sending::New)?,
    )
}

/// Give SESSION the user's latest message TEXT again, with what was attached when it was sent first.
/// Where it has no answer, the model reads it once. CONTEXT and value are as in `agent-q-core-submit'.
#[defun]
fn submit_again(env: &Env, session: i64, text: Text, context: Option<Text>) -> Result<i64> {
    send(
        env,
        session,
        bridge::message(env, text, context, Sending::Again)?,
    )
}

fn send(env: &Env, session: i64, message: UserMessage) -> Result<i64> {
    let (engine, id) = (&core(env)?.engine, message.id);
    engine
        .submit(session_id(session), message)
        .map(|()| id.0 as i64)
        .or_else(|error| signal(env, error))
}

/// Run the tool call that LINE spells, such as "/describe_symbol mapcar", in SESSION.
/// The value is as in `agent-q-core-submit'.
#[defun]
fn console(env: &Env, session: i64, line: Text) -> Result<i64> {
    let line = bridge::message(env, line, None, Sending::New)?;
    let id = line.id;
    tell(env, session, Op::Console(line))?;
    Ok(id.0 as i64)
}

/// Return the width and height in pixels of the picture whose bytes DATA is in base64.
/// Signal an error that says why models don't take it, or what to do.
#[defun]
fn picture_size(env: &Env, data: Text) -> Result<Value<'_>> {
    let picture = Picture::read(&data).or_else(|error| signal(env, error))?;
    env.list([
        i64::from(picture.width).into_lisp(env)?,
        i64::from(picture.height).into_lisp(env)?,
    ])
}

/// Take back the MESSAGE of that number, which waits in SESSION; return nil when it is read already.
#[defun]
fn take_back(env: &Env, session: i64, message: i64) -> Result<bool> {
    Ok(agenda(env, session)?.take_back(MessageId(message as u64)))
}

/// Cancel SESSION's turn and drop what waits behind it; return the numbers of the messages that were.
#[defun]
fn cancel(env: &Env, session: i64) -> Result<Value<'_>> {
    let dropped = agenda(env, session)?.cancel();
    let dropped: Vec<Value<'_>> = dropped
        .into_iter()
        .map(|id| (id.0 as i64).into_lisp(env))
        .collect::<Result<_>>()?;
    env.list(&dropped)
}

/// Undo what SESSION's latest turn changed in files and buffers, when no turn runs; with FILES, the
/// latest that changed any, as `changes' shows it.
/// A `:notice' event reports the outcome, a `:turn-undone' event what is left and what it changed in the image.
#[defun]
fn undo_turn(env: &Env, session: i64, files: Option<Value<'_>>) -> Result<()> {
    let which = match files {
        Some(_) => UndoneTurn::LatestOfFiles,
        None => UndoneTurn::Latest,
    };
    tell(env, session, Op::UndoTurn(which))
}

/// Have SESSION's model told that the user took back changes in the image.
/// RESULTS is the image's word on it.
#[defun]
fn image_undone(env: &Env, session: i64, results: Text) -> Result<()> {
    let engine = &core(env)?.engine;
    engine
        .image_undone(session_id(session), &results)
        .or_else(|error| signal(env, error))
}

/// Return what SESSION's latest turn changed in files and buffers, as one diff.
#[defun]
fn changes(env: &Env, session: i64) -> Result<String> {
    let engine = &core(env)?.engine;
    engine
        .changes(session_id(session))
        .or_else(|error| signal(env, error))
}

/// Close SESSION; its turn ends. Closing it twice is no error.
#[defun]
fn close_session(env: &Env, session: i64) -> Result<()> {
    core(env)?.engine.close_session(session_id(session));
    Ok(())
}

/// Answer the approval request of CALL with DECISION.
/// DECISION is "approved", "denied" (PAYLOAD is the reason or nil), "modified" (PAYLOAD is
/// the new arguments, a JSON object), or, about an effect, "stopped". Signal `agent-q-error' when the call is no longer waiting.
#[defun]
fn decide(env: &Env, call: i64, decision: Text, payload: Option<Text>) -> Result<()> {
    let (engine, payload) = (&core(env)?.engine, payload.map(String::from));
    engine
        .decide(CallKey(call as u64), &decision, payload, Decider::User)
        .or_else(|error| signal(env, error))
}

/// Do as `agent-q-core-decide' with an answer of `agent-q-approval-handler'.
#[defun]
fn decide_by_handler(env: &Env, call: i64, decision: Text, payload: Option<Text>) -> Result<()> {
    let (engine, payload) = (&core(env)?.engine, payload.map(String::from));
    engine
        .decide(CallKey(call as u64), &decision, payload, Decider::Handler)
        .or_else(|error| signal(env, error))
}

/// Pass on TEXT, what the image's watch says while REQUEST is under way; an `:effect-decided' event
/// brings the answer. Return nil when nobody takes it.
#[defun]
fn effect(env: &Env, request: i64, text: Text) -> Result<bool> {
    Ok(core(env)?.emacs.ask(RequestId(request as u64), text.into()))
}

/// Return the user's rules as JSON text, an object of rules, file and trouble.
#[defun]
fn rules(env: &Env) -> Result<String> {
    Ok(core(env)?.engine.rules())
}

/// Take RULE, JSON text, and return its number.
/// Calls that wait and need no answer any more are settled, each with an `:approval-settled' event,
/// but not CALL, which may be nil: the user answers that one along with the rule.
#[defun]
fn add_rule(env: &Env, rule: Text, call: Option<i64>) -> Result<i64> {
    let answered = call.map(|call| CallKey(call as u64));
    match core(env)?.engine.add_rule(&rule, answered) {
        Ok(id) => Ok(id as i64),
        Err(error) => signal(env, error),
    }
}

/// Take the rule with the number ID back; return t if there was one.
#[defun]
fn revoke_rule(env: &Env, id: i64) -> Result<bool> {
    let engine = &core(env)?.engine;
    engine
        .revoke_rule(id as u64)
        .or_else(|error| signal(env, error))
}

/// Return the rule that would let the waiting CALL run again, JSON text of rule and description.
/// SCOPE is "chat", "project" or "always".
#[defun]
fn offered_rule(env: &Env, call: i64, scope: Text) -> Result<String> {
    let engine = &core(env)?.engine;
    engine
        .offered_rule(CallKey(call as u64), &scope)
        .or_else(|error| signal(env, error))
}

/// Return what the waiting CALL would make of a file, or nil when it changes none: the list
/// (SHOWN FILE ORIGINAL MODIFIED DIVISIBLE NOTE MOVES).
/// ORIGINAL is nil for a new file, DIVISIBLE whether a part of the change makes sense. MOVES says which
/// file gets which name, or is nil.
#[defun]
fn preview(env: &Env, call: i64) -> Result<Value<'_>> {
    let preview = core(env)?.engine.preview(CallKey(call as u64));
    bridge::diff::preview(env, preview.as_ref())
}

/// Find out what would happen to CALL, and return the number of the question.
/// CALL is a JSON object of tool, arguments, session and foreign. An `:explained' event brings the
/// answer, JSON text: outcome, reason, rule, matching, level, assessment.
#[defun]
fn explain_call(env: &Env, call: Text) -> Result<i64> {
    match core(env)?.engine.explain_call(&call) {
        Ok(question) => Ok(question.0 as i64),
        Err(error) => signal(env, error),
    }
}

/// Return the hunks from ORIGINAL to MODIFIED with CONTEXT lines around each.
/// A hunk is a list (OLD-START NEW-START HEADER BODY ADDED REMOVED).
#[defun]
fn diff_hunks(env: &Env, original: Text, modified: Text, context: i64) -> Result<Value<'_>> {
    bridge::diff::hunks(env, &original, &modified, context)
}

/// Return OLD as it is when so much of its new text has come as SO-FAR says.
/// That is the whole lines of SO-FAR and the lines of OLD for which nothing has come yet.
#[defun]
fn diff_half_rewritten(old: Text, so_far: Text) -> Result<String> {
    Ok(diff::half_rewritten(&old, &so_far))
}

/// Return HUNK, JSON text, with the lines of BODY, or signal `agent-q-error' if that can't be.
#[defun]
fn diff_edit_hunk(env: &Env, hunk: Text, body: Text) -> Result<Value<'_>> {
    bridge::diff::edited(env, &hunk, &body)
}

/// Return ORIGINAL with HUNKS, a JSON list, applied.
#[defun]
fn diff_apply(env: &Env, original: Text, hunks: Text) -> Result<String> {
    bridge::diff::applied(env, &original, &hunks)
}

/// Return CURRENT, which has changed since, with HUNKS, a JSON list, applied where they fit:
/// the text and, for each hunk, its line or why it was left out.
#[defun]
fn diff_apply_onto(env: &Env, current: Text, hunks: Text) -> Result<Value<'_>> {
    bridge::diff::applied_onto(env, &current, &hunks)
}

/// Give the core Emacs's reply to REQUEST: STATUS, a string, and PAYLOAD, a string or nil.
/// The model reads NOTE, a string or nil, under what becomes of PAYLOAD. ADDED is what Emacs adds to a
/// reply of an image, a printed property list, or nil.
#[defun]
fn resolve(
    env: &Env,
    request: i64,
    status: Text,
    payload: Option<Text>,
    note: Option<Text>,
    added: Option<Text>,
) -> Result<()> {
    let reply = bridge::wire::reply(&status, payload, note, added);
    core(env)?.emacs.resolve(RequestId(request as u64), reply);
    Ok(())
}

/// Return the registered tools as property lists.
#[defun]
fn tools(env: &Env) -> Result<Value<'_>> {
    let tools = core(env)?.engine.registry().all();
    let tools: Vec<_> = tools.iter().map(|it| bridge::wire::tool(it)).collect();
    bridge::wire::lisp(env, tools)
}

/// Return the registered tool called NAME as a property list, or nil.
#[defun]
fn tool(env: &Env, name: Text) -> Result<Option<Value<'_>>> {
    let tool = core(env)?.engine.registry().get(&name);
    tool.map(|tool| bridge::wire::lisp(env, bridge::wire::tool(&tool)))
        .transpose()
}

/// Whether a tool called NAME is registered.
#[defun]
fn tool_known(env: &Env, name: Text) -> Result<bool> {
    Ok(core(env)?.engine.registry().get(&name).is_some())
}

/// Return the names of the tools that a chat offers whose setting is SELECTION, JSON text.
/// It is "usual", "all", "none", or an object with the key chosen, of names, categories, max_level.
#[defun]
fn offered_tools(env: &Env, selection: Text) -> Result<Value<'_>> {
    match core(env)?.engine.offered_tools(&selection) {
        Ok(names) => bridge::wire::lisp(env, names),
        Err(error) => signal(env, error),
    }
}

/// Define the tool that DEFINITION, a JSON object, describes; one of the same name is replaced.
/// Signal `agent-q-invalid-tool' when it breaks a rule.
#[defun]
fn define_tool(env: &Env, definition: Text) -> Result<()> {
    match tool::definition::parse(&definition) {
        Ok(tool) => {
            core(env)?.engine.registry().register(tool);
            Ok(())
        }
        Err(problem) => bridge::signal_invalid_tool(env, &problem),
    }
}

/// Remove the tool NAME; return t if there was one.
#[defun]
fn unregister_tool(env: &Env, name: Text) -> Result<bool> {
    Ok(core(env)?.engine.registry().unregister(&name).is_some())
}

/// Register built-in tools again: the one called NAME, or for nil those that are missing.
#[defun]
fn register_builtin(env: &Env, name: Option<Text>) -> Result<()> {
    builtin::restore(core(env)?.engine.registry(), name.as_deref());
    Ok(())
}

/// Put the user's safety LEVELS in force, a JSON object of tool names and levels.
#[defun]
fn set_levels(env: &Env, levels: Text) -> Result<()> {
    core(env)?
        .engine
        .set_levels(&levels)
        .or_else(|error| signal(env, error))
}

/// Run CALLS, a vector of vectors [ID NAME ARGUMENTS] with the arguments as JSON text, and return
/// the number of the batch. A `:batch-finished' event brings the results. ASK is t when approval
/// requests are answered, WATCH when the start and the end of each call are wanted, too. PRIVATE is
/// a vector of globs of private files, or nil for the usual ones.
#[defun]
fn execute(
    env: &Env,
    calls: Vector<'_>,
    ask: Option<Value<'_>>,
    watch: Option<Value<'_>>,
    private: Option<Vector<'_>>,
) -> Result<i64> {
    let approval = match ask {
        Some(_) => Approval::Ask,
        None => Approval::None,
    };
    let watcher = match watch {
        Some(_) => Watcher::Hooks,
        None => Watcher::Nobody,
    };
    let calls = bridge::wire::calls(calls)?;
    let private = private.map(bridge::wire::texts).transpose()?;
    let engine = &core(env)?.engine;
    Ok(engine.execute(calls, approval, watcher, private).0 as i64)
}

/// Run CALLS, as in `agent-q-core-execute', for the user of SESSION: in its project and its image, where
/// nobody is asked or told, so only what is safe runs. Return the number of the batch.
#[defun]
fn look_up(env: &Env, session: i64, calls: Vector<'_>) -> Result<i64> {
    let calls = bridge::wire::calls(calls)?;
    let engine = &core(env)?.engine;
    Ok(engine.look_up(session_id(session), calls).0 as i64)
}

/// Find the files of SESSION's project, without ignored and private ones, and return the number of the
/// question. A `:project-files' event brings the answer.
#[defun]
fn project_files(env: &Env, session: i64) -> Result<i64> {
    Ok(core(env)?.engine.project_files(session_id(session)).0 as i64)
}

/// Cancel BATCH; its calls still get their results, which say WHY.
#[defun]
fn cancel_batch(env: &Env, batch: i64, why: Text) -> Result<()> {
    core(env)?.engine.cancel_batch(BatchId(batch as u64), &why);
    Ok(())
}

/// Return what the calls so far have cost, a property list for each tool.
#[defun]
fn statistics(env: &Env) -> Result<Value<'_>> {
    let statistics = core(env)?.engine.metrics().snapshot();
    let tools: Vec<_> = statistics.iter().map(bridge::wire::statistics).collect();
    bridge::wire::lisp(env, tools)
}

/// Check ARGUMENTS against SCHEMA, both JSON text; return them with defaults filled in.
/// Signal `agent-q-invalid-arguments' with every problem.
#[defun]
fn check_arguments(env: &Env, schema: Text, arguments: Text) -> Result<String> {
    match tool::schema::check_text(&schema, &arguments) {
        Ok(arguments) => Ok(arguments),
        Err(problems) => bridge::signal_invalid_arguments(env, &problems),
    }
}

/// Return SCHEMA of a tool's arguments, JSON text, with what providers want to be said in it.
#[defun]
fn sendable_schema(env: &Env, schema: Text) -> Result<String> {
    match serde_json::from_str(&schema) {
        Ok(schema) => Ok(tool::parameter::sendable_schema(&schema).to_string()),
        Err(error) => signal(env, error),
    }
}

/// Return why SCHEMA, JSON text, is no usable JSON Schema, or nil when it is one.
#[defun]
fn schema_problem(schema: Text) -> Result<Option<String>> {
    Ok(tool::schema::problem_of_text(&schema))
}

/// Return the parts of the type signature TEXT as JSON text.
/// Signal `agent-q-gram-error' with a sentence, the line, the column and what was expected.
#[defun]
fn parse_type_signature(env: &Env, text: Text) -> Result<String> {
    let signature = bridge::gram::or_signal(env, gram::parse_type_signature(&text))?;
    Ok(signature.outline().to_string())
}

/// Return the JSON Schema of the type signature TEXT as JSON text, or signal `agent-q-gram-error'.
#[defun]
fn type_signature_schema(env: &Env, text: Text) -> Result<String> {
    let schema = bridge::gram::or_signal(env, gram::type_signature_to_json_schema(&text))?;
    Ok(schema.to_string())
}

/// Return the tool specification of NAME, DESCRIPTION and SIGNATURE as JSON text.
#[defun]
fn specification(env: &Env, name: Text, description: Text, signature: Text) -> Result<String> {
    bridge::gram::specification(env, &name, &description, &signature)
}

/// Return the gram of SPECIFICATION, JSON text.
#[defun]
fn specification_to_gram(env: &Env, specification: Text) -> Result<String> {
    bridge::gram::specification_to_gram(env, &specification)
}

/// Return the tool specification that TEXT, gram, writes, as JSON text.
#[defun]
fn specification_from_gram(env: &Env, text: Text) -> Result<String> {
    bridge::gram::specification_from_gram(env, &text)
}

/// Return SPECIFICATION, JSON text, with its schema rebuilt.
#[defun]
fn specification_from_json(env: &Env, specification: Text) -> Result<String> {
    bridge::gram::specification_from_json(env, &specification)
}

/// Return the agent that TEXT, gram, describes, as JSON text.
#[defun]
fn agent_from_gram(env: &Env, text: Text) -> Result<String> {
    bridge::gram::agent(env, &text)
}

/// Return why TOOL does not carry out SPECIFICATION, both JSON text, or nil when it does.
#[defun]
fn bind_explain(env: &Env, specification: Text, tool: Text) -> Result<Option<String>> {
    bridge::gram::bind_explain(env, &specification, &tool)
}

/// Put the tool library NAME in place, of TOOLS, a JSON list of name, description, schema,
/// handler and level.
#[defun]
fn set_library(env: &Env, name: Text, tools: Text) -> Result<()> {
    let libraries = core(env)?.engine.libraries();
    libraries
        .set(&name, &tools)
        .or_else(|error| signal(env, error))
}

/// Return what SESSION would send before a message in CONTEXT, as in `agent-q-core-submit'.
/// These are two texts: the system prompt and the block in front of the message.
#[defun]
fn system_prompt(env: &Env, session: i64, context: Text) -> Result<Value<'_>> {
    bridge::prompts(env, session_id(session), context)
}

/// Look for model servers on this machine; a `:discovered' event brings the answer.
#[defun]
fn discover(env: &Env) -> Result<()> {
    core(env)?.engine.discover();
    Ok(())
}

/// Ask the host of PROVIDER, JSON text, for its models; return the number of the question.
/// A `:models' event brings the answer.
#[defun]
fn models(env: &Env, provider: Text) -> Result<i64> {
    match core(env)?.engine.models(&provider) {
        Ok(question) => Ok(question.0 as i64),
        Err(error) => signal(env, error),
    }
}

/// Return what is open in the core, as a property list of counts and the log file.
#[defun]
fn status(env: &Env) -> Result<Value<'_>> {
    bridge::status(env)
}

/// Stop the core's threads without waiting for them. For `kill-emacs-hook'.
#[defun]
fn shutdown(env: &Env) -> Result<()> {
    if let Ok(core) = core(env) {
        core.engine.servers().leave();
        core.engine.save_all(SAVING_AT_EXIT);
    }
    runtime::shutdown();
    Ok(())
}

fn session_id(session: i64) -> SessionId {
    SessionId(session as u64)
}
