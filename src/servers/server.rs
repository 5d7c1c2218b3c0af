// SPDX-License-Identifier: GPL-3.0-or-later
//! The life of one server: started when it is first needed, its tools in the registry, started again after it
//! died, but not in a hurry.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Mutex as Gate;

use super::connection::{self, Heard, MOST_TOOLS, ServerConnection};
use super::names;
use super::output::ServerLog;
use super::process::ServerProcess;
use super::settings::{ServerPlace, ServerSettings};
use crate::protocol::{Emacs, Event};
use crate::runtime::{held, on_emacs};
use crate::tool::registry::Registry;
use crate::tool::schema::Strangers;
use crate::tool::work::{WorkContext, joined};
use crate::tool::{Arguments, Origin, Parameter, Runner, Tool, ToolFailure};
use crate::trust::{Provenance, SafetyLevel};
use crate::visible::is_hidden;

/// The longest description of a tool, and the largest schema, in bytes. Each is read by the model.
const LONGEST_DESCRIPTION: usize = 2000;
const LARGEST_SCHEMA: usize = 16 * 1024;

/// How long a server that died has to wait: twice as long each time, up to the most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A change of the tools is looked at when no other follows it for so long.
const SETTLING: Duration = Duration::from_millis(300);

/// A server, running or not.
pub(super) struct ToolServer {
    /// The category of its tools, the group of `more_tools`.
    group: String,
    settings: ServerSettings,
    registry: Weak<Registry>,
    emacs: Arc<dyn Emacs>,
    log: Arc<ServerLog>,
    life: Mutex<Life>,
    /// Held while it is started.
    starting: Gate<()>,
}

#[derive(Default)]
struct Life {
    state: State,
    /// Why it does not run, where it should.
    problem: String,
    says: String,
    /// How often it died or could not be started since it last did what it was asked to do, and when it did so last.
    deaths: u32,
    died: Option<Instant>,
    /// What each of its tools is called here; kept while it does not run.
    names: HashMap<String, String>,
    /// How many it has that are left out.
    left_out: usize,
}

#[derive(Default, Clone)]
enum State {
    /// Not needed yet, or stopped.
    #[default]
    Idle,
    Starting,
    Running(Arc<ServerConnection>),
    Failed,
    /// Not one of the user's any more.
    Retired,
}

impl ToolServer {
    pub(super) fn new(
        group: String,
        settings: ServerSettings,
        registry: &Arc<Registry>,
        emacs: Arc<dyn Emacs>,
    ) -> Arc<Self> {
        Arc::new(Self {
            group,
            settings,
            registry: Arc::downgrade(registry),
            emacs,
            log: Arc::default(),
            life: Mutex::default(),
            starting: Gate::new(()),
        })
    }

    pub(super) fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn log_text(&self) -> String {
        self.log.text()
    }

    pub(super) fn tool_count(&self) -> usize {
        held(&self.life).names.len()
    }

    /// What there is to know of it, for the user.
    pub(super) fn status(&self) -> Value {
        let life = held(&self.life);
        let state = match life.state {
            State::Idle | State::Retired => "idle",
            State::Starting => "starting",
            State::Running(_) => "running",
            State::Failed => "failed",
        };
        let place = match &self.settings.reached {
            ServerPlace::Command(command) => command.command.join(" "),
            ServerPlace::Address { url, .. } => url.clone(),
        };
        json!({
            "name": self.settings.name,
            "group": self.group,
            "state": state,
            "problem": said(&life.problem),
            "says": said(&life.says),
            "place": place,
            "project": self.settings.project,
            "tools": life.names.len(),
            "left_out": life.left_out,
        })
    }

    /// Lets models ask for its tools.
    pub(super) fn promise(self: &Arc<Self>) {
        let Some(registry) = self.registry.upgrade() else {
            return;
        };
        let server = Arc::clone(self);
        registry.promise(&self.group, self.settings.project.as_deref(), move || {
            let server = Arc::clone(&server);
            Box::pin(async move { server.running().await.map(drop) })
        });
    }

    /// The connection, the server being started first where it has to be.
    ///
    /// # Errors
    ///
    /// Why it does not run, with its last words.
    pub(super) async fn running(self: &Arc<Self>) -> Result<Arc<ServerConnection>, ToolFailure> {
        if let Some(connection) = self.open_connection() {
            return Ok(connection);
        }
        let server = Arc::clone(self);
        // Who waits for it may be cancelled; it is started to the end.
        joined(tokio::spawn(async move { server.start().await }).await)
    }

    fn connection(&self) -> Option<Arc<ServerConnection>> {
        match &held(&self.life).state {
            State::Running(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// The connection, if it can be used.
    fn open_connection(&self) -> Option<Arc<ServerConnection>> {
        self.connection().filter(|it| it.is_open())
    }

    /// Starts it at the user's word, however often it died.
    ///
    /// # Errors
    ///
    /// Why it does not run.
    pub(super) async fn begin_again(self: &Arc<Self>) -> Result<(), ToolFailure> {
        {
            let life = &mut *held(&self.life);
            (life.deaths, life.died) = (0, None);
        }
        self.running().await.map(drop)
    }

    async fn start(self: Arc<Self>) -> Result<Arc<ServerConnection>, ToolFailure> {
        let _alone = self.starting.lock().await;
        if let Some(connection) = self.open_connection() {
            return Ok(connection);
        }
        // Its process may take a while to end.
        if let Some(closed) = self.connection() {
            self.failed(&closed.why_ended());
        }
        self.may_start()?;
        self.enter(State::Starting, String::new());
        self.log.note("starting");
        self.note_withheld();
        match self.reach().await {
            Ok(connection) => Ok(connection),
            Err(problem) => {
                self.failed(&problem);
                Err(self.not_running(&problem))
            }
        }
    }

    /// Notes which variables it doesn't get: it may fail for the lack of one.
    fn note_withheld(&self) {
        if let ServerPlace::Command(command) = &self.settings.reached {
            let names = command.withheld();
            if !names.is_empty() {
                let names = names.join(", ");
                self.log.note(&format!(
                    "without these variables, which may be secret: {names}; :env gives it one"
                ));
            }
        }
    }

    /// Whether it may be started now.
    fn may_start(&self) -> Result<(), ToolFailure> {
        let life = held(&self.life);
        if matches!(life.state, State::Retired) {
            return Err(ToolFailure::new(format!(
                "The user doesn't have the server {} any more.",
                self.settings.name
            )));
        }
        let wait = FIRST_WAIT * 2_u32.saturating_pow(life.deaths.saturating_sub(1).min(10));
        let wait = wait.min(LONGEST_WAIT);
        match life.died.map(|died| died.elapsed()) {
            Some(since) if life.deaths > 1 && since < wait => {
                let seconds = (wait - since).as_secs() + 1;
                let problem = life.problem.clone();
                drop(life);
                let mut failure = self.not_running(&problem);
                failure.message.push_str(&format!(
                    "\nIt is started again in {seconds} seconds at the earliest; go on without it."
                ));
                Err(failure)
            }
            _ => Ok(()),
        }
    }

    async fn reach(self: &Arc<Self>) -> Result<Arc<ServerConnection>, String> {
        let (connection, heard, end) = connection::connect(&self.settings, &self.log).await?;
        let connection = Arc::new(connection);
        let tools = connection.tools().await;
        // Its end is waited for in any case.
        let server = Arc::clone(self);
        let (ended, listening) = (Arc::clone(&connection), Arc::clone(&heard));
        let relisting =
            tokio::spawn(Arc::clone(self).follow_changes(Arc::clone(&connection), heard));
        tokio::spawn(async move {
            end.await;
            relisting.abort();
            server.ended(&ended, &listening).await;
        });
        let tools = tools.inspect_err(|_| connection.ending.cancel())?;
        self.register(tools);
        {
            let life = &mut *held(&self.life);
            life.says.clone_from(&connection.says);
        }
        self.enter(State::Running(Arc::clone(&connection)), String::new());
        let count = self.tool_count();
        self.log.note(&format!("running, with {count} tools"));
        Ok(connection)
    }

    /// Reads the tools again, and tells Emacs, whenever the server says that it has other ones, or other prompts
    /// or resources.
    async fn follow_changes(self: Arc<Self>, connection: Arc<ServerConnection>, heard: Arc<Heard>) {
        loop {
            heard.changed.notified().await;
            while tokio::time::timeout(SETTLING, heard.changed.notified())
                .await
                .is_ok()
            {}
            match connection.tools().await {
                Ok(tools) => {
                    self.register(tools);
                    let count = self.tool_count();
                    self.log
                        .note(&format!("says that it has changed; has {count} tools now"));
                    self.tell();
                }
                Err(problem) => self.log.note(&problem),
            }
        }
    }

    /// What became of CONNECTION, which ended.
    async fn ended(&self, connection: &Arc<ServerConnection>, heard: &Heard) {
        let status = match &connection.process {
            Some(process) => process.end().await,
            None => None,
        };
        let how = status.map_or_else(|| "it ended".to_owned(), |it| format!("it ended ({it})"));
        let problem = heard.trouble().unwrap_or(how);
        let is_ours =
            matches!(&held(&self.life).state, State::Running(it) if Arc::ptr_eq(it, connection));
        if !is_ours {
            self.log.note("stopped");
            return;
        }
        self.failed(&problem);
    }

    fn failed(&self, problem: &str) {
        self.log.note(problem);
        {
            let life = &mut *held(&self.life);
            life.deaths += 1;
            life.died = Some(Instant::now());
        }
        self.enter(State::Failed, problem.to_owned());
    }

    fn not_running(&self, problem: &str) -> ToolFailure {
        let words = self.log.last_words();
        let message = format!("The server {} does not run: {problem}.", self.settings.name);
        match words.is_empty() {
            true => ToolFailure::new(message),
            false => ToolFailure::quoting(format!("{message} It wrote:\n{words}")),
        }
    }

    fn enter(&self, state: State, problem: String) {
        {
            let life = &mut *held(&self.life);
            if !matches!(life.state, State::Retired) {
                life.state = state;
                life.problem = problem;
            }
        }
        self.tell();
    }

    fn tell(&self) {
        self.emacs.emit(Event::ToolServer {
            name: self.settings.name.clone(),
        });
    }

    /// Stops it until it is needed.
    pub(super) fn stop(&self) {
        let connection = self.connection();
        self.enter(State::Idle, String::new());
        if let Some(connection) = connection {
            connection.ending.cancel();
        }
    }

    /// Stops it for good, and takes its tools out of the registry.
    pub(super) fn retire(&self) {
        self.stop();
        held(&self.life).state = State::Retired;
        let Some(registry) = self.registry.upgrade() else {
            return;
        };
        registry.retract(&self.group);
        for name in held(&self.life).names.values() {
            registry.unregister(name);
        }
    }

    /// Closes its input, as Emacs exits; its process, if it has one.
    pub(super) fn leave(&self) -> Option<Arc<ServerProcess>> {
        let connection = self.connection()?;
        held(&self.life).state = State::Retired;
        connection.ending.cancel();
        connection.process.clone()
    }
}

// Its tools in the registry.

impl ToolServer {
    /// Has the registry offer TOOLS, and none that the server doesn't offer any more.
    fn register(self: &Arc<Self>, tools: Vec<rmcp::model::Tool>) {
        let Some(registry) = self.registry.upgrade() else {
            return;
        };
        if matches!(held(&self.life).state, State::Retired) {
            return;
        }
        let origin = Origin::Server(self.settings.name.clone());
        let mut known = std::mem::take(&mut held(&self.life).names);
        let mut names = HashMap::new();
        let mut left_out = tools.len().saturating_sub(MOST_TOOLS);
        let mut taken: HashSet<String> = known.values().cloned().collect();
        for tool in tools.into_iter().take(MOST_TOOLS) {
            let own = tool.name.to_string();
            if names.contains_key(&own) {
                continue;
            }
            let schema = Value::Object((*tool.input_schema).clone());
            if schema.to_string().len() > LARGEST_SCHEMA {
                left_out += 1;
                continue;
            }
            let name = known.remove(&own).unwrap_or_else(|| {
                names::of_tool(&self.group, &own, |name| {
                    !taken.contains(name) && registry.get(name).is_none()
                })
            });
            taken.insert(name.clone());
            let description = tool.description.as_deref().or(tool.title.as_deref());
            let description = shown(description.unwrap_or_default());
            registry.register(self.tool(&name, &own, &description, schema, &origin));
            names.insert(own, name);
        }
        for gone in known.into_values() {
            registry.unregister(&gone);
        }
        let life = &mut *held(&self.life);
        (life.names, life.left_out) = (names, left_out);
    }

    fn tool(
        self: &Arc<Self>,
        name: &str,
        own: &str,
        description: &str,
        schema: Value,
        origin: &Origin,
    ) -> Tool {
        let (server, own) = (Arc::clone(self), own.to_owned());
        let run = move |arguments: Arguments, context: WorkContext| {
            let (server, own) = (Arc::clone(&server), own.clone());
            on_emacs::elsewhere(async move { server.call(own, &arguments, &context).await })
        };
        let runner = Runner::Server(Arc::new(move |arguments, context| {
            Box::pin(run(arguments, context))
        }));
        let level = SafetyLevel::Dangerous;
        let strangers = Strangers::AsTheSchemaSays;
        let parameters = Parameter::of_schema(&schema);
        let mut tool = Tool::with_schema(name, description, level, schema, strangers, runner);
        tool.parameters = parameters;
        tool.categories = vec![self.group.clone()];
        tool.origin = origin.clone();
        tool.provenance = Provenance::Foreign;
        tool
    }

    async fn call(
        self: &Arc<Self>,
        tool: String,
        arguments: &Arguments,
        context: &WorkContext,
    ) -> Result<String, ToolFailure> {
        let connection = context
            .telling(self.running(), || {
                format!("starting {}", self.settings.name)
            })
            .await?;
        let Value::Object(arguments) = arguments.to_json() else {
            return Err(ToolFailure::new("The arguments are no object."));
        };
        let patience = self.settings.timeout();
        let result = connection.call(tool, arguments, patience, context).await;
        if result.is_ok() {
            self.note_alive();
        }
        result
    }

    /// Takes in that it did what it was asked to do.
    pub(super) fn note_alive(&self) {
        held(&self.life).deaths = 0;
    }
}

/// TEXT of a server's, without what hides something, within the limit.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .filter(|&it| it == '\n' || !is_hidden(it))
        .take(LONGEST_DESCRIPTION)
        .collect();
    if text.chars().count() > LONGEST_DESCRIPTION {
        shown.push('…');
    }
    shown
}

/// A property of a status that is there only when there is something to say.
fn said(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => json!(text),
    }
}
