// SPDX-License-Identifier: GPL-3.0-or-later
//! A program that calls: its session, which Emacs opens with the first call, its turns, which are calls
//! with little time between them, its calls, and what is asked of Emacs for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedRwLockReadGuard, RwLock};
use tokio_util::sync::CancellationToken;

use super::tools::{
    self, Profile, WHICH_IMAGE, has_debuggers, has_image, looks_into_image, no_scratch, takes_image,
};
use super::transport::SHARE;
use crate::builtin::more::called_through;
use crate::engine::Engine;
use crate::engine::batch::NO_SESSION;
use crate::engine::mcp_turn::McpTurn;
use crate::protocol::{CallArguments, EmacsReply, EmacsRequest, Event, SessionId, ToolCall};
use crate::protocol::{Emacs, WatchedEmacs};
use crate::runtime::{held, on_emacs};
use crate::tool::SCRATCH;
use crate::tool::begun::{BegunCall, BegunCalls, CallText};
use crate::trust::SafetyLevel;

/// What the user set for clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientOptions {
    pub profile: Profile,
    /// Seconds within which each call is answered.
    pub patience: f64,
    /// Seconds without a call after which a turn is over.
    pub turn_pause: f64,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            patience: 45.0,
            turn_pause: 60.0,
        }
    }
}

impl ClientOptions {
    #[must_use]
    pub fn patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.patience).unwrap_or(Duration::from_secs(45))
    }

    #[must_use]
    pub fn turn_pause(&self) -> Duration {
        Duration::try_from_secs_f64(self.turn_pause).unwrap_or(Duration::from_secs(60))
    }
}

/// How many calls of a client may be under way, and outcomes wait to be awaited.
const MOST_CALLS: usize = 100;

/// When a call that changes something is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrder {
    /// After those before it.
    InTurn,
    /// At once: it is for the background.
    Beside,
}

/// What a client does and is allowed to.
pub struct McpClient {
    pub number: u64,
    engine: Arc<Engine>,
    who: Mutex<Who>,
    options: Mutex<ClientOptions>,
    /// Held while Emacs is asked for a session.
    opening: tokio::sync::Mutex<()>,
    open: Mutex<Option<OpenTurn>>,
    session: Mutex<Option<SessionId>>,
    /// Whether Emacs was asked for one.
    known: AtomicBool,
    /// Told when nothing of the turn runs any more.
    resting: Notify,
    /// Held by a call that changes something: those are made one at a time and in order. One that waits for
    /// the user lets others go first.
    serial: Arc<tokio::sync::Mutex<()>>,
    /// The image that was named for the calls that run. They hold it, so that none is changed under them.
    image: Arc<RwLock<Option<String>>>,
    calls: BegunCalls,
    paused: AtomicBool,
    gone: AtomicBool,
}

/// Who a client says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    pub name: String,
    /// Where it works.
    pub directory: Option<String>,
}

/// What Emacs says of a client that begins to call.
#[derive(Deserialize)]
struct Admission {
    session: Option<u64>,
    #[serde(default)]
    paused: bool,
    /// Why tools of the image can't be called.
    #[serde(default)]
    no_image: Option<String>,
    /// Why nothing can.
    #[serde(default)]
    problem: Option<String>,
}

/// A call's hold on the turn that it is made in.
struct InTurn<'c> {
    client: &'c McpClient,
    turn: Arc<McpTurn>,
    no_image: Option<String>,
}

impl Drop for InTurn<'_> {
    fn drop(&mut self) {
        let mut open = held(&self.client.open);
        if let Some(open) = open.as_mut().filter(|open| open.turn.id == self.turn.id) {
            open.running -= 1;
            if open.running == 0 {
                open.resting_since = Instant::now();
                self.turn.rest();
                self.client.resting.notify_one();
            }
        }
    }
}

impl McpClient {
    #[must_use]
    pub fn new(engine: Arc<Engine>, options: ClientOptions) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            engine,
            who: Mutex::default(),
            options: Mutex::new(options),
            opening: tokio::sync::Mutex::default(),
            open: Mutex::default(),
            session: Mutex::default(),
            known: AtomicBool::new(false),
            resting: Notify::new(),
            serial: Arc::default(),
            image: Arc::default(),
            calls: BegunCalls::with_room(MOST_CALLS, SHARE),
            paused: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    #[must_use]
    pub fn who(&self) -> Who {
        held(&self.who).clone()
    }

    /// Changes who the client is, as long as it has no session.
    pub fn introduce(&self, change: impl FnOnce(&mut Who)) {
        if self.session().is_none() {
            change(&mut held(&self.who));
        }
    }

    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        *held(&self.session)
    }

    #[must_use]
    pub fn options(&self) -> ClientOptions {
        held(&self.options).clone()
    }

    pub fn set_options(&self, options: ClientOptions) {
        *held(&self.options) = options;
        // A turn may be over by now.
        self.resting.notify_one();
    }

    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Whether calls are refused from now on.
    pub fn pause(&self, pause: Pausing) {
        self.paused.store(pause == Pausing::On, Ordering::Release);
    }

    #[must_use]
    pub fn running(&self) -> usize {
        self.calls.running().len()
    }

    /// Stops all that runs; the outcomes say WHY.
    pub fn stop_calls(&self, why: &str) {
        self.calls.stop_all(why);
    }

    /// Stops all, as the client is not there any more.
    pub async fn leave(&self) {
        self.gone.store(true, Ordering::Release);
        self.stop_calls("the client disconnected");
        self.resting.notify_one();
        // What is just being asked for the client is asked first.
        let _opening = self.opening.lock().await;
        // Emacs may have a buffer for it of which nothing has come back here yet.
        if self.known.load(Ordering::Acquire) {
            let left = json!({"client": self.number});
            // A buffer that was killed has nothing to show.
            let _ = ask_emacs(&**self.engine.emacs(), "client-left", left).await;
        }
    }

    /// The call that the client knows as ID.
    #[must_use]
    pub fn call(&self, id: u64) -> Option<Arc<BegunCall>> {
        self.calls.get(id)
    }

    pub fn forget(&self, id: u64) {
        self.calls.forget(id);
    }

    /// Begins the call of the tool NAME with ARGUMENTS in ORDER, which the client marked with MARK as one of
    /// a turn; its outcome comes in time.
    ///
    /// # Errors
    ///
    /// A sentence on why it is not begun.
    pub fn begin(
        self: &Arc<Self>,
        name: &str,
        arguments: CallArguments,
        mark: Option<String>,
        order: CallOrder,
    ) -> Result<Arc<BegunCall>, CallText> {
        if self.is_paused() {
            return Err(CallText::problem(
                "Error: The user has paused this client in Emacs; no calls run. Ask the user to resume it before you call again.",
            ));
        }
        let raw_arguments = match &arguments {
            CallArguments::Object(object) => json!(object).to_string(),
            _ => "{}".to_owned(),
        };
        let call = BegunCall::new(name, raw_arguments.len(), CancellationToken::new());
        let begun = self.calls.begin(call);
        let call = begun.map_err(|why| CallText::problem(format!("Error: {why}")))?;
        let asked = ToolCall {
            id: call.id.to_string(),
            name: name.to_owned(),
            raw_arguments,
            arguments,
        };
        let (client, made) = (Arc::clone(self), Arc::clone(&call));
        let guarded = self.engine.guarded(async move {
            let asked = called_through(&asked);
            let outcome = client.perform(asked, &made, (mark.as_deref(), order)).await;
            made.finish(outcome);
        });
        let failed = Arc::clone(&call);
        on_emacs::spawn(async move {
            guarded.await;
            if !failed.is_over() {
                failed.finish(CallText::problem(
                    "Error: The call failed because of a bug in agent-q; its log has the details.",
                ));
            }
        });
        Ok(call)
    }

    async fn perform(
        self: &Arc<Self>,
        mut asked: ToolCall,
        call: &Arc<BegunCall>,
        (mark, order): (Option<&str>, CallOrder),
    ) -> CallText {
        let image = match self.take_image(&mut asked) {
            Ok(image) => image,
            Err(problem) => return CallText::problem(format!("Error: {problem}")),
        };
        let admitted = async {
            let gate = self.hold_image(image.as_deref()).await;
            let entered = self.enter(gate.as_deref(), mark).await;
            entered.map(|turn| (turn, gate))
        };
        let (entered, _gate) = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return call.stopped(),
            admitted = admitted => match admitted {
                Ok(admitted) => admitted,
                Err(problem) => return CallText::problem(format!("Error: {problem}")),
            },
        };
        let tool = entered.turn.resolve(&asked.name).ok();
        let in_image = tool.as_ref().is_some_and(|tool| looks_into_image(tool));
        if let Some(problem) = entered.no_image.as_ref().filter(|_| in_image) {
            return CallText::problem(format!("Error: {problem}"));
        }
        // A tool that only reads may do so beside others.
        let changes = tool.is_some_and(|tool| tool.level > SafetyLevel::Safe);
        let order = match changes && order == CallOrder::InTurn {
            false => None,
            true => tokio::select! {
                biased;
                () = call.cancel.cancelled() => return call.stopped(),
                order = Arc::clone(&self.serial).lock_owned() => Some(order),
            },
        };
        let order = Arc::new(Mutex::new(order));
        let (seeing, giving_way) = (Arc::clone(call), Arc::clone(&order));
        let emacs: Arc<dyn Emacs> = Arc::new(WatchedEmacs {
            behind: Arc::clone(self.engine.emacs()),
            see: move |event: Event| {
                seeing.see(&event);
                if matches!(event, Event::ApprovalRequested { .. }) {
                    drop(held(&giving_way).take());
                }
                Some(event)
            },
        });
        let cancel = call.cancel.clone();
        let result = entered
            .turn
            .run(&asked, emacs, cancel, Arc::clone(&call.why))
            .await;
        drop(held(&order).take());
        match result {
            Some(result) => CallText::from(&result),
            None => CallText::problem("Error: The call has no result."),
        }
    }

    /// Takes the image that ASKED names out of its arguments.
    ///
    /// # Errors
    ///
    /// When it is the scratch image and the tool has nothing to do with that.
    fn take_image(&self, asked: &mut ToolCall) -> Result<Option<String>, String> {
        let registry = self.engine.registry();
        let (Ok(tool), CallArguments::Object(arguments)) =
            (registry.resolve(&asked.name), &mut asked.arguments)
        else {
            return Ok(None);
        };
        if !takes_image(&tool) {
            return Ok(None);
        }
        let given = arguments.get(WHICH_IMAGE).and_then(Value::as_str);
        let is_scratch = given.map(str::trim) == Some(SCRATCH);
        if is_scratch && has_image(&tool) {
            return Ok(None);
        }
        if is_scratch && !has_debuggers(&tool) {
            return Err(no_scratch(&tool.name, registry));
        }
        let Some(image) = arguments.shift_remove(WHICH_IMAGE) else {
            return Ok(None);
        };
        asked.raw_arguments = json!(arguments).to_string();
        // Some models fill in every parameter. Debuggers are found by their names, in each image.
        let image = image.as_str().map(str::trim).filter(|it| !it.is_empty());
        Ok(image.filter(|_| !is_scratch).map(str::to_owned))
    }

    /// Holds the image in use for a call, which is the one NAMED, or the client's own.
    async fn hold_image(&self, named: Option<&str>) -> OwnedRwLockReadGuard<Option<String>> {
        let current = Arc::clone(&self.image).read_owned().await;
        if named == current.as_deref() {
            return current;
        }
        drop(current);
        let mut current = Arc::clone(&self.image).write_owned().await;
        *current = named.map(str::to_owned);
        // The turn's image is another one now, so Emacs is asked again.
        if let Some(open) = held(&self.open).as_mut() {
            open.no_image = Some(String::new());
        }
        current.downgrade()
    }

    /// Enters the turn that is open, or a new one, with IMAGE as the image that was named, for a call
    /// with MARK.
    async fn enter(
        self: &Arc<Self>,
        image: Option<&str>,
        mark: Option<&str>,
    ) -> Result<InTurn<'_>, String> {
        let _opening = self.opening.lock().await;
        if let Some(entered) = self.enter_open(mark) {
            return Ok(entered);
        }
        if self.gone.load(Ordering::Acquire) {
            return Err("the client disconnected".to_owned());
        }
        let Who { name, directory } = self.who();
        let question = json!({
            "name": name,
            "directory": directory,
            "image": image,
            "session": self.session().map(|session| session.0),
            "client": self.number,
        });
        self.known.store(true, Ordering::Release);
        let answer = ask_emacs(&**self.engine.emacs(), "client-turn", question).await?;
        let admission: Admission = serde_json::from_str(&answer)
            .map_err(|error| format!("Emacs's answer is not understood: {error}"))?;
        let session = match (admission.problem, admission.session) {
            (Some(problem), _) => return Err(problem),
            (None, None) => return Err("Emacs has no session for this client.".to_owned()),
            (None, Some(session)) => SessionId(session),
        };
        *held(&self.session) = Some(session);
        if admission.paused {
            self.paused.store(true, Ordering::Release);
            return Err("The user has paused this client in Emacs; no calls run.".to_owned());
        }
        self.enter_anew(session, admission.no_image, mark)
    }

    /// Enters the turn that is open, if it takes a call with MARK and has its image.
    fn enter_open(&self, mark: Option<&str>) -> Option<InTurn<'_>> {
        let pause = self.options().turn_pause();
        let mut open = held(&self.open);
        let open = open.as_mut().filter(|open| {
            // The user may have killed the buffer.
            self.engine.has_session(open.turn.session)
                && open.no_image.is_none()
                && open.takes(mark, pause)
        })?;
        open.take(mark);
        Some(InTurn {
            client: self,
            turn: Arc::clone(&open.turn),
            no_image: None,
        })
    }

    fn enter_anew(
        self: &Arc<Self>,
        session: SessionId,
        no_image: Option<String>,
        mark: Option<&str>,
    ) -> Result<InTurn<'_>, String> {
        let ClientOptions { profile, .. } = self.options();
        let pause = self.options().turn_pause();
        let mut open = held(&self.open);
        if let Some(open) = open
            .as_mut()
            .filter(|open| open.turn.session == session && open.takes(mark, pause))
        {
            open.take(mark);
            open.no_image.clone_from(&no_image);
            return Ok(InTurn {
                client: self,
                turn: Arc::clone(&open.turn),
                no_image,
            });
        }
        if let Some(old) = open.take() {
            old.turn.end();
        }
        let name = self.who().name;
        let listed = tools::offered(&profile, self.engine.registry(), &name);
        let turn = self
            .engine
            .begin_mcp_turn(session, &name, listed, profile.unoffered())
            .map_err(|error| error.to_string())?;
        let turn = Arc::new(turn);
        *open = Some(OpenTurn {
            turn: Arc::clone(&turn),
            mark: mark.map(str::to_owned),
            running: 1,
            resting_since: Instant::now(),
            no_image: no_image.clone(),
        });
        drop(open);
        self.engine
            .spawn(Arc::clone(self).end_in_time(Arc::clone(&turn)));
        Ok(InTurn {
            client: self,
            turn,
            no_image,
        })
    }

    /// Ends TURN when nothing of it has run for a while, or its client is gone.
    async fn end_in_time(self: Arc<Self>, turn: Arc<McpTurn>) {
        loop {
            let pause = self.options().turn_pause();
            let over = {
                let mut open = held(&self.open);
                let Some(mine) = open.as_ref().filter(|open| open.turn.id == turn.id) else {
                    return;
                };
                let over = mine.resting_since + mine.pause(pause);
                let gone = self.gone.load(Ordering::Acquire);
                if mine.running == 0 && (gone || over <= Instant::now()) {
                    *open = None;
                    turn.end();
                    return;
                }
                (mine.running == 0).then_some(over)
            };
            match over {
                None => self.resting.notified().await,
                Some(over) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(over.into()) => {}
                        () = self.resting.notified() => {}
                    }
                }
            }
        }
    }

    /// What can be seen of CALL while it runs.
    pub async fn look(&self, call: &BegunCall) -> Option<String> {
        call.look(&**self.engine.emacs(), self.session()?).await
    }
}

/// Whether a client's calls are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pausing {
    On,
    Off,
}

/// A turn that its client marks lasts until the next mark, or this many times the pause that ends others.
const MARKED_PAUSES: u32 = 10;

/// The turn that a client's calls are made in.
struct OpenTurn {
    pub turn: Arc<McpTurn>,
    /// What the client marks the calls of the turn with, if it does.
    pub mark: Option<String>,
    pub running: usize,
    pub resting_since: Instant,
    /// Why tools of the image can't be called.
    pub no_image: Option<String>,
}

impl OpenTurn {
    /// Whether a call marked with MARK is one of it. Where a turn is not marked, that depends on how
    /// long nothing was called, with PAUSE as the longest time.
    pub fn takes(&self, mark: Option<&str>, pause: Duration) -> bool {
        // Two turns at once can't be told apart in Emacs.
        self.running > 0
            || match (&self.mark, mark) {
                (Some(mine), Some(mark)) => mine == mark,
                _ => self.resting_since.elapsed() < pause,
            }
    }

    /// Takes a call with MARK.
    pub fn take(&mut self, mark: Option<&str>) {
        self.running += 1;
        if self.mark.is_none() {
            self.mark = mark.map(str::to_owned);
        }
    }

    /// How long nothing has to be called until it is over, where PAUSE is the time for one that is not
    /// marked.
    pub fn pause(&self, pause: Duration) -> Duration {
        match self.mark {
            Some(_) => pause * MARKED_PAUSES,
            None => pause,
        }
    }
}

/// How long Emacs may take.
const EMACS_TIME: Duration = Duration::from_secs(20);

/// Emacs's answer to OPERATION with ARGUMENTS, which belongs to no session.
///
/// # Errors
///
/// A sentence when there is none.
pub async fn ask_emacs(
    emacs: &dyn Emacs,
    operation: &'static str,
    arguments: Value,
) -> Result<String, String> {
    ask_session(emacs, NO_SESSION, operation, arguments).await
}

/// The same for SESSION.
///
/// # Errors
///
/// A sentence when there is none.
async fn ask_session(
    emacs: &dyn Emacs,
    session: SessionId,
    operation: &'static str,
    arguments: Value,
) -> Result<String, String> {
    let request = EmacsRequest::Operation {
        operation,
        arguments,
    };
    match tokio::time::timeout(EMACS_TIME, emacs.request(session, request)).await {
        Ok(EmacsReply::Done(done)) => Ok(done.text),
        Ok(EmacsReply::Failed(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "Emacs is busy and did not answer within {} s. Try again later.",
            EMACS_TIME.as_secs()
        )),
    }
}
