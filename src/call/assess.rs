// SPDX-License-Identifier: GPL-3.0-or-later
//! What a call would do, told before it runs: by its arguments alone, and for code by the image that
//! knows its macros. No reply from the image counts as danger. A guard rail, not a sandbox.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexpr::Value;
use tokio::time::timeout;

use super::batch::{BatchContext, EvalPolicy, PlanMode};
use super::reach::{self, Reached};
use super::{Executor, private_reads};
use crate::effect::{EffectKind, Granted};
use crate::image::{self, ImageReply, Plist, property_list};
use crate::protocol::{EmacsError, EmacsReply, EmacsRequest, ImageRequest, Lisp};
use crate::rules::{Alarm, Alarms, EDITING, FETCHES, OtherAlarms, WRITING};
use crate::runtime::held;
use crate::tool::code::Unit;
use crate::tool::work::{silent, text_of};
use crate::tool::{Arguments, Assessment, Code, Origin, Tool, ToolFailure, Treatment};
use crate::trust::SafetyLevel;

/// How long the image may look at code; what takes longer counts as a hit.
const DEADLINE: Duration = Duration::from_secs(5);
/// Emacs watches over the call; this is for an Emacs that forgot it.
const GRACE: Duration = Duration::from_secs(10);

/// Whether the same call was assessed before. What its macros expanded to then is used again, so
/// that those which count or register something do it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    First,
    Again,
    /// Nothing runs afterwards: somebody wants to know what the call would do.
    Only,
}

/// How far code was looked at before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assessed {
    /// So many of its forms run as they were assessed; the image has to see to the rest while it runs
    /// them.
    Forms(i64),
    /// Not at all: the watch in the image meets what it does.
    Watched,
}

impl Assessed {
    /// As an operation of the image is given it.
    pub(super) fn value(self) -> Value {
        match self {
            Self::Forms(count) => Value::from(count),
            Self::Watched => Value::string("watched"),
        }
    }
}

/// When the image looks at code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before it runs: what it does has to be known by then.
    Before,
    /// While it runs, where there is a watch.
    Running,
}

/// Why an image did not look at code.
enum Blind {
    /// There is none, or it is gone, so that the call can only fail.
    NoImage(EmacsError),
    /// It did not reply, so that nobody knows what the code does.
    NoAnswer(ToolFailure),
}

/// What assessing a call gave.
#[derive(Debug, Clone)]
pub(super) struct CallVerdict {
    pub(super) assessment: Assessment,
    /// What the code is asked about, where the image says it reason by reason.
    pub(super) alarms: Alarms,
    pub(super) reached: Reached,
    /// What running it does and nothing can undo.
    pub(super) notes: Vec<String>,
    /// How far the image has looked, where it has to see to the rest while it runs the code.
    pub(super) settled: Option<Assessed>,
    /// The effects that were found, which saying yes grants.
    pub(super) effects: Granted,
    /// The code that the arguments only name, or why it can't be found.
    pub(super) unit: Option<Result<Unit, ToolFailure>>,
}

impl CallVerdict {
    /// What facts are gathered from.
    pub(super) fn found(&self) -> (&Assessment, &Reached, &Alarms) {
        (&self.assessment, &self.reached, &self.alarms)
    }

    fn plain(
        tool: &Tool,
        (assessment, reached): (Assessment, Reached),
        project: Option<&Path>,
    ) -> Self {
        let found = Vec::new();
        let known = reached.alarms.clone();
        let known = known.filter(|_| reached.concerns.is_empty());
        let alarms = match (assessment.level, known) {
            (_, Some(alarms)) => alarms,
            (SafetyLevel::Dangerous, None) if edits_project(tool, &reached, project) => {
                Alarms::of_edit()
            }
            (SafetyLevel::Dangerous, None) => Alarms {
                found,
                others: OtherAlarms::Some,
            },
            (SafetyLevel::Safe | SafetyLevel::Cautious, None) => Alarms {
                found,
                others: OtherAlarms::None,
            },
        };
        Self {
            assessment,
            alarms,
            reached,
            notes: Vec::new(),
            settled: None,
            effects: Granted::default(),
            unit: None,
        }
    }

    /// Whether the call is known to change nothing although it is asked about.
    pub(super) fn only_looks(&self) -> bool {
        let program = self.reached.program.as_ref();
        let fetches = |alarm: &Alarm| alarm.reason == FETCHES;
        program.is_some_and(|it| it.only_looks) || self.alarms.found.iter().any(fetches)
    }

    /// Whether a yes to OTHER is one to this: nobody has agreed to other code than what the file had
    /// when they were asked, nor to another file.
    pub(super) fn asks_the_same_as(&self, other: &Self) -> bool {
        self.assessment.reason == other.assessment.reason
            && self.alarms.within(&other.alarms)
            && self.unit == other.unit
            && self.reached.files == other.reached.files
            && self.reached.program == other.reached.program
    }

    /// For REASON, which no rule about reasons knows.
    fn dangerous(mut self, reason: &str) -> Self {
        self.alarms.others = OtherAlarms::Some;
        self.raised(reason)
    }

    fn raised(mut self, reason: &str) -> Self {
        let assessment = &mut self.assessment;
        assessment.level = assessment.level.max(SafetyLevel::Dangerous);
        if !assessment.reason.is_empty() {
            assessment.reason.push_str("; ");
        }
        assessment.reason.push_str(reason);
        self
    }
}

impl Executor {
    /// What the call of TOOL with ARGUMENTS would do. Never runs any of it.
    ///
    /// # Errors
    ///
    /// When the chat runs no code at all, no image is connected that could, a path can't be used, or
    /// the image has no package of the name that is given: nobody need be asked about what can't run.
    pub(super) async fn assess(
        &self,
        tool: &Tool,
        arguments: &Arguments,
        look: Look,
        batch: &BatchContext,
    ) -> Result<CallVerdict, ToolFailure> {
        let context = self.context(batch).about(tool.lisp(arguments));
        if batch.eval_policy != EvalPolicy::ReadOnly {
            context.start_lisp().await?;
        }
        let mut verdict = CallVerdict::plain(
            tool,
            reach::assess(tool, arguments, &context).await?,
            batch.place.project.as_deref(),
        );
        let Some(code) = tool.code else {
            return Ok(verdict);
        };
        let policy = batch.eval_policy;
        let runs = code.treatment != Treatment::Expand;
        if let Some(find) = tool.unit {
            let context = context.clone().judged(&verdict.reached.judged);
            verdict.unit = Some(find(arguments.clone(), context).await);
        }
        let texts = texts_to_assess(code, arguments, &verdict);
        if texts.is_empty() {
            return match policy {
                EvalPolicy::ReadOnly if code.parameters.is_empty() => Err(read_only(tool)),
                _ => Ok(verdict),
            };
        }
        match policy {
            EvalPolicy::ReadOnly => return Err(read_only(tool)),
            EvalPolicy::NeverAsk => return Ok(verdict),
            EvalPolicy::AskAlways | EvalPolicy::AskIfRisky => {}
        }
        let mut verdict = if policy == EvalPolicy::AskAlways && runs {
            verdict.dangerous("evaluates code in your image")
        } else {
            verdict
        };
        let file = match &verdict.unit {
            Some(Ok(unit)) => Plist::new(&unit.arguments).text("file").map(str::to_owned),
            _ => None,
        };
        let when = self.when_to_look(&verdict, (code.treatment, look), batch);
        for (position, text) in texts {
            let treatment = match position {
                0 => code.treatment,
                // Only the first is read by an operation that looks at the rest itself.
                _ => Treatment::RunAtOnce,
            };
            let reply = match self
                .look_at(
                    (treatment, look, when),
                    (&text, file.as_deref()),
                    (arguments, &context.lisp),
                    batch,
                )
                .await
            {
                Ok(reply) => reply,
                Err(Blind::NoImage(error)) => return Err(error.into()),
                Err(Blind::NoAnswer(failure)) => {
                    verdict = verdict.dangerous(&format!("not checked: {failure}"));
                    continue;
                }
            };
            if let Some(reason) = failing(&reply) {
                return Err(ToolFailure::quoting(reason));
            }
            verdict = judged(verdict, treatment, &reply);
            if runs
                && let Some(directory) = opening(&reply)
                && let Some(named) = private_reads::named(&text, directory, &context).await
            {
                verdict = verdict.dangerous(&named.concern);
                if let Some(literal) = &named.literal {
                    verdict.effects.add(EffectKind::ReadPrivate, literal);
                }
            }
        }
        Ok(verdict)
    }

    /// When the image has to look at code. Expanding a macro, plans, policies and rules about reasons go
    /// by what is known before anything runs, and a user who is asked anyway is told all of it.
    fn when_to_look(
        &self,
        verdict: &CallVerdict,
        (treatment, look): (Treatment, Look),
        batch: &BatchContext,
    ) -> When {
        let by_reasons = || {
            held(&self.rules)
                .rules()
                .flat_map(|rule| &rule.alarms)
                .any(Alarm::is_of_code)
        };
        let before = treatment == Treatment::Expand
            || look == Look::Only
            || verdict.assessment.level == SafetyLevel::Dangerous
            || batch.plan != PlanMode::Off
            || batch.eval_policy == EvalPolicy::AskAlways
            || by_reasons();
        match before {
            true => When::Before,
            false => When::Running,
        }
    }

    async fn look_at(
        &self,
        (treatment, look, when): (Treatment, Look, When),
        (text, file): (&str, Option<&str>),
        (arguments, lisp): (&Arguments, &Lisp),
        batch: &BatchContext,
    ) -> Result<ImageReply, Blind> {
        let given = |name| arguments.text(name).map_or(Value::Null, Value::string);
        let (purpose, mode) = match treatment {
            Treatment::Expand if arguments.flag("full") && arguments.text("mode").is_none() => {
                (Value::string("expand"), Value::string("full"))
            }
            Treatment::Expand => {
                let mode = arguments.text("mode").unwrap_or("once");
                (Value::string("expand"), Value::string(mode))
            }
            Treatment::RunInSteps | Treatment::RunAtOnce => (Value::Null, Value::Null),
        };
        let again = match look {
            Look::First | Look::Only => Value::Null,
            Look::Again => Value::symbol("t"),
        };
        let request = EmacsRequest::Image(ImageRequest {
            lisp: lisp.clone(),
            operation: "assess-form".to_owned(),
            arguments: image::print_arguments(&property_list([
                ("form", Value::string(text)),
                ("package", given("package")),
                ("purpose", purpose),
                ("mode", mode),
                ("again", again),
                (
                    "before",
                    match when {
                        When::Before => Value::symbol("t"),
                        When::Running => Value::Null,
                    },
                ),
                ("file", file.map_or(Value::Null, Value::string)),
            ])),
            deadline: DEADLINE,
            call: None,
        });
        let reply = self.emacs.request(batch.session, request);
        let cancelled = || ToolFailure::new("the call was cancelled.");
        let reply = tokio::select! {
            () = batch.cancel.cancelled() => return Err(Blind::NoAnswer(cancelled())),
            reply = timeout(DEADLINE + GRACE, reply) => reply.map_err(|_| silent(DEADLINE + GRACE)),
        };
        let text = match reply {
            Ok(EmacsReply::Failed(
                error @ (EmacsError::NoConnection | EmacsError::Disconnected(_)),
            )) => return Err(Blind::NoImage(error)),
            Ok(reply) => text_of(reply),
            Err(failure) => Err(failure),
        };
        text.and_then(|text| {
            image::parse_reply(&text).map_err(|error| ToolFailure::new(error.to_string()))
        })
        .map_err(Blind::NoAnswer)
    }
}

/// Whether a call of TOOL edits ordinary files of the PROJECT alone, or adds one: none that is private
/// or hidden.
fn edits_project(tool: &Tool, reached: &Reached, project: Option<&Path>) -> bool {
    let is_ordinary = |file: &PathBuf| {
        let inside = project.and_then(|root| file.strip_prefix(root).ok());
        let is_hidden = |part: &OsStr| part.as_encoded_bytes().starts_with(b".");
        inside.is_some_and(|path| !path.iter().any(is_hidden))
    };
    // What a file had before is lost when all of it is written.
    let writes = WRITING.contains(&tool.name.as_str());
    let is_edit = |file: &PathBuf| !writes || file.symlink_metadata().is_err();
    tool.origin == Origin::BuiltIn
        && EDITING.contains(&tool.name.as_str())
        && reached.concerns.is_empty()
        && !reached.files.is_empty()
        && reached
            .files
            .iter()
            .all(|it| is_ordinary(it) && is_edit(it))
}

/// The code among ARGUMENTS, or what they name, with the position of each among the parameters.
fn texts_to_assess(
    code: Code,
    arguments: &Arguments,
    verdict: &CallVerdict,
) -> Vec<(usize, String)> {
    if let Some(Ok(Unit { code, .. })) = &verdict.unit {
        return code.iter().map(|code| (0, code.clone())).collect();
    }
    code.parameters
        .iter()
        .enumerate()
        .filter_map(|(position, name)| Some((position, arguments.text(name)?.to_owned())))
        .collect()
}

/// Why code that the image replied REPLY to can only fail, if that is so.
fn failing(reply: &ImageReply) -> Option<&str> {
    match reply {
        ImageReply::Returned(value) => Plist::new(value).text("fails"),
        _ => None,
    }
}

/// What the user is to know of Lisps without a watch (`lisp/image/watch/`), as all but SBCL are.
const UNWATCHED: &str =
    "in this Lisp nothing more is asked while it runs: what its functions reach for is not seen";

fn judged(mut verdict: CallVerdict, treatment: Treatment, reply: &ImageReply) -> CallVerdict {
    let steps = treatment == Treatment::RunInSteps;
    let data = match reply {
        ImageReply::Returned(value) => Plist::new(value),
        // Such as an object that isn't there: the tool itself says so, and runs nothing.
        ImageReply::Missed(_) if steps => {
            verdict.settled = Some(Assessed::Forms(0));
            return verdict;
        }
        ImageReply::Missed(message) => {
            return verdict.dangerous(&format!("not checked: {message}"));
        }
        ImageReply::Error(report) => {
            return verdict.dangerous(&format!("not checked: {}", report.message));
        }
        ImageReply::Cancelled(_) => {
            return verdict.dangerous("not checked: the image took too long");
        }
    };
    if data.flag("watched") {
        verdict.settled = Some(Assessed::Watched);
        return verdict;
    }
    let (Some(assessed), Some(settled)) = (data.integer("assessed"), data.integer("settled"))
    else {
        return verdict.dangerous("not checked: cannot parse the image's answer");
    };
    let mut reasons: Vec<String> = data.texts("hits").into_iter().map(str::to_owned).collect();
    let more = data.flag("more");
    if more && (!steps || !reasons.is_empty()) {
        reasons.push(format!(
            "the forms after the first {assessed} can only be read, and assessed, once those have run"
        ));
    }
    if more || !take_alarms(&mut verdict.alarms, data) {
        verdict.alarms.others = OtherAlarms::Some;
    }
    let notes: Vec<String> = data.texts("notes").into_iter().map(str::to_owned).collect();
    verdict.notes.extend(notes.iter().cloned());
    verdict.effects.take(data);
    if steps {
        verdict.settled = Some(Assessed::Forms(settled));
    }
    if reasons.is_empty() {
        return verdict;
    }
    reasons.extend(notes);
    if data.flag("unwatched") {
        reasons.push(UNWATCHED.to_owned());
    }
    verdict.raised(&reasons.join("; "))
}

/// Adds what DATA, an assessment, says of the reasons for its hits; whether that accounts for all of
/// them.
fn take_alarms(alarms: &mut Alarms, data: Plist<'_>) -> bool {
    let named = data.list("alarms").filter_map(|alarm| {
        let alarm = alarm.to_ref_vec()?;
        let operator = alarm.get(1).and_then(|it| it.as_str());
        Some(Alarm {
            reason: alarm.first()?.as_str()?.to_owned(),
            operator: operator.map(str::to_owned),
        })
    });
    let named: Vec<Alarm> = named.collect();
    let hits = data.texts("hits");
    let accounted = hits
        .iter()
        .all(|hit| named.iter().any(|it| hit.starts_with(&it.reason)));
    alarms.found.extend(named);
    accounted
}

/// Whether code that the image replied REPLY to opens files, or has parts of which nobody knows yet
/// whether they do; and the image's directory.
fn opening(reply: &ImageReply) -> Option<Option<&str>> {
    let ImageReply::Returned(value) = reply else {
        return Some(None);
    };
    let data = Plist::new(value);
    let unsettled = data.integer("settled") < data.integer("assessed");
    (data.flag("opens") || data.flag("more") || unsettled).then(|| data.text("directory"))
}

fn read_only(tool: &Tool) -> ToolFailure {
    let expands = tool.code.map(|code| code.treatment) == Some(Treatment::Expand);
    let why = match expands {
        true => " Expanding a macro runs its code.",
        false => "",
    };
    ToolFailure::new(format!(
        "{} was not run: this chat runs no code in the image (agent-q-eval-policy is read-only).{why} Read-only tools still work.",
        tool.name
    ))
}
