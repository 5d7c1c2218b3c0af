// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chat can set: provider, prompt, limits. Read from the JSON that Emacs sends; a key that
//! is left out keeps its value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::budget::Limits;
use super::guidance::{self, Guide};
use super::prefix;
use super::selection::ToolSelection;
use super::skills::{self, Skill};
use crate::builtin::image::timeouts;
use crate::builtin::more;
use crate::call::batch::{Approval, EvalPolicy, PlanMode};
use crate::files::private::{DEFAULT_PATTERNS, PrivateFiles};
use crate::gram::ToolSpecification;
use crate::provider::{
    Dialect, Effort, ModelFacts, ProviderSettings, Route, Script, Secret, ToolChoice,
};
use crate::tool::libraries::Agent;
use crate::tool::offer::{Offer, Unoffered};
use crate::tool::registry::Registry;
use crate::tool::work::AfterEdit;
use crate::workspace::ProjectSettings;

/// Changes to a session's settings.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSettings {
    /// Outer none: unchanged. Inner none: no model.
    #[serde(deserialize_with = "provider")]
    pub provider: Option<Option<ProviderJson>>,
    /// The way to the provider's host.
    pub route: Option<Route>,
    /// The model of researches; inner none: that of the chat.
    #[serde(deserialize_with = "provider")]
    pub research_provider: Option<Option<ProviderJson>>,
    /// What the user adds to the system prompt.
    #[serde(deserialize_with = "present")]
    pub instructions: Option<Option<String>>,
    pub max_iterations: Option<u32>,
    /// Inner none: no limit.
    #[serde(deserialize_with = "present")]
    pub max_turn_tokens: Option<Option<u64>>,
    #[serde(deserialize_with = "present")]
    pub max_turn_seconds: Option<Option<u64>>,
    /// US dollars; inner none: no limit.
    #[serde(deserialize_with = "present")]
    pub max_turn_cost: Option<Option<f64>>,
    /// The size of the model's window in tokens; inner none: as the facts of the model say.
    #[serde(deserialize_with = "present")]
    pub context_window: Option<Option<u64>>,
    /// How much of the window may be filled before the conversation is compacted; inner none: all, until the
    /// host refuses it.
    #[serde(deserialize_with = "present")]
    pub compact_at: Option<Option<f64>>,
    pub plan: Option<PlanMode>,
    /// A directory of skills of the user's; inner none: there is none.
    #[serde(deserialize_with = "present")]
    pub skills_directory: Option<Option<String>>,
    /// The tools offered to the model.
    pub tools: Option<ToolSelection>,
    pub tool_choice: Option<ToolChoiceJson>,
    pub approval: Option<Approval>,
    /// How long code may run in the image when the call does not say.
    pub eval_seconds: Option<f64>,
    /// The name of the chat's connection, for rules.
    #[serde(deserialize_with = "present")]
    pub connection: Option<Option<String>>,
    /// When code is run without asking.
    pub eval_policy: Option<EvalPolicy>,
    /// Whether definitions that an edit has changed are compiled.
    pub compile_after_edit: Option<bool>,
    /// The gram agent that the chat follows; inner none: none.
    #[serde(deserialize_with = "present")]
    pub agent: Option<Option<AgentJson>>,
    /// The directory of the project that the chat is about; inner none: not said.
    #[serde(deserialize_with = "present")]
    pub project_root: Option<Option<String>>,
    /// Whether the model reads what the project's people wrote for agents.
    pub project_instructions: Option<ProjectInstructions>,
    /// Globs of files that hold secrets; inner none: the default list.
    #[serde(deserialize_with = "present")]
    pub private_files: Option<Option<Vec<String>>>,
}

/// What becomes of a project's files AGENTS.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProjectInstructions {
    Read,
    #[default]
    Ignore,
}

/// An agent as Emacs writes it: what its file says, and the libraries that the user chose.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentJson {
    name: String,
    instruction: String,
    #[serde(default, deserialize_with = "specifications")]
    specifications: Vec<ToolSpecification>,
    #[serde(default)]
    libraries: Vec<String>,
}

impl From<AgentJson> for Agent {
    fn from(json: AgentJson) -> Self {
        Self {
            name: json.name,
            instruction: json.instruction,
            specifications: json.specifications,
            libraries: json.libraries,
        }
    }
}

fn specifications<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ToolSpecification>, D::Error> {
    Vec::<Value>::deserialize(deserializer)?
        .iter()
        .map(|json| ToolSpecification::from_json(json).map_err(serde::de::Error::custom))
        .collect()
}

/// A provider as Emacs writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderJson {
    name: String,
    base_url: String,
    model: String,
    /// None: as its host speaks.
    #[serde(default)]
    dialect: Option<Dialect>,
    #[serde(default)]
    effort: Option<Effort>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    body: Map<String, Value>,
    #[serde(default)]
    first_body: Map<String, Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    facts: ModelFacts,
    #[serde(default)]
    recordings: Option<PathBuf>,
    #[serde(default)]
    route: Route,
    #[serde(default)]
    script: Option<Script>,
}

impl std::fmt::Debug for ProviderJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.model, self.base_url)
    }
}

impl From<ProviderJson> for ProviderSettings {
    fn from(json: ProviderJson) -> Self {
        Self {
            name: json.name,
            dialect: json
                .dialect
                .unwrap_or_else(|| Dialect::usual_at(&json.base_url)),
            effort: json.effort,
            base_url: json.base_url.trim_end_matches('/').to_owned(),
            model: json.model,
            key: json.key.filter(|key| !key.is_empty()).map(Secret::new),
            body: json.body,
            first_body: json.first_body,
            headers: json.headers.into_iter().collect(),
            facts: json.facts,
            recordings: json.recordings,
            route: json.route,
            script: json.script,
        }
    }
}

/// The provider that JSON describes. Nothing of it is repeated when it is not understood.
#[must_use]
pub fn provider_from_json(json: &str) -> Option<ProviderSettings> {
    serde_json::from_str::<ProviderJson>(json)
        .ok()
        .map(ProviderSettings::from)
}

/// `"auto"`, `"required"`, `"none"` or `{"tool": NAME}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoiceJson {
    Auto,
    Required,
    None,
    Tool(String),
}

impl From<ToolChoiceJson> for ToolChoice {
    fn from(json: ToolChoiceJson) -> Self {
        match json {
            ToolChoiceJson::Auto => Self::Auto,
            ToolChoiceJson::Required => Self::Required,
            ToolChoiceJson::None => Self::None,
            ToolChoiceJson::Tool(name) => Self::Tool(name),
        }
    }
}

/// A provider, of which nothing is repeated when it is not understood: each value may be a secret.
fn provider<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<ProviderJson>>, D::Error> {
    let given = Option::<Value>::deserialize(deserializer)?;
    let provider = given.map(serde_json::from_value).transpose();
    provider.map(Some).map_err(|_| {
        serde::de::Error::custom(
            "the provider has a property that is missing, unknown or of another type",
        )
    })
}

/// Tells a key that is null from a key that is absent.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// The settings of a session as they are.
#[derive(Debug, Clone)]
pub struct Settings {
    pub provider: Option<ProviderSettings>,
    /// The model of researches, where that is another one.
    pub research_provider: Option<ProviderSettings>,
    pub instructions: Option<String>,
    pub limits: Limits,
    pub context_window: Option<u64>,
    pub compact_at: Option<f64>,
    pub plan: PlanMode,
    pub skills_directory: Option<String>,
    pub tools: ToolSelection,
    pub tool_choice: ToolChoice,
    pub approval: Approval,
    pub eval_deadline: Duration,
    pub connection: Option<String>,
    pub eval_policy: EvalPolicy,
    pub after_edit: AfterEdit,
    pub agent: Option<Agent>,
    pub ground: ProjectSettings,
    pub project_instructions: ProjectInstructions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            provider: None,
            research_provider: None,
            instructions: None,
            limits: Limits::default(),
            context_window: None,
            compact_at: Some(0.8),
            plan: PlanMode::Off,
            skills_directory: None,
            tools: ToolSelection::default(),
            tool_choice: ToolChoice::Auto,
            // Fail closed until a chat says that it can ask.
            approval: Approval::None,
            eval_deadline: timeouts::EVALUATION,
            connection: None,
            eval_policy: EvalPolicy::default(),
            after_edit: AfterEdit::default(),
            agent: None,
            ground: ProjectSettings::default(),
            project_instructions: ProjectInstructions::default(),
        }
    }
}

impl Settings {
    /// Takes over what CHANGES name.
    pub fn apply(&mut self, changes: SessionSettings) {
        if let Some(provider) = changes.provider {
            self.provider = provider.map(Into::into);
        }
        if let (Some(route), Some(provider)) = (changes.route, &mut self.provider) {
            provider.route = route;
        }
        if let Some(provider) = changes.research_provider {
            self.research_provider = provider.map(Into::into);
        }
        if let Some(instructions) = changes.instructions {
            self.instructions = instructions;
        }
        if let Some(limit) = changes.max_iterations {
            self.limits.requests = limit.max(1);
        }
        if let Some(limit) = changes.max_turn_tokens {
            self.limits.tokens = limit;
        }
        if let Some(limit) = changes.max_turn_seconds {
            self.limits.time = limit.map(Duration::from_secs);
        }
        if let Some(limit) = changes.max_turn_cost {
            self.limits.cost = limit;
        }
        if let Some(window) = changes.context_window {
            self.context_window = window;
        }
        if let Some(share) = changes.compact_at {
            self.compact_at = share;
        }
        if let Some(plan) = changes.plan {
            self.plan = plan;
        }
        if let Some(directory) = changes.skills_directory {
            self.skills_directory = directory;
        }
        if let Some(tools) = changes.tools {
            self.tools = tools;
        }
        if let Some(choice) = changes.tool_choice {
            self.tool_choice = choice.into();
        }
        if let Some(approval) = changes.approval {
            self.approval = approval;
        }
        if let Some(connection) = changes.connection {
            self.connection = connection;
        }
        if let Some(policy) = changes.eval_policy {
            self.eval_policy = policy;
        }
        if let Some(compiles) = changes.compile_after_edit {
            self.after_edit = match compiles {
                true => AfterEdit::Compile,
                false => AfterEdit::Leave,
            };
        }
        if let Some(agent) = changes.agent {
            self.agent = agent.map(Into::into);
        }
        if let Some(root) = changes.project_root {
            self.ground.root = root;
        }
        if let Some(choice) = changes.project_instructions {
            self.project_instructions = choice;
        }
        if let Some(patterns) = changes.private_files {
            self.ground.private = patterns;
        }
        if let Some(seconds) = changes.eval_seconds {
            self.eval_deadline = Duration::try_from_secs_f64(seconds).unwrap_or(self.eval_deadline);
        }
    }

    /// How many tokens the model's window takes of a request, if it is known.
    #[must_use]
    pub fn window(&self) -> Option<u64> {
        let provider = self.provider.as_ref();
        let facts = provider.and_then(|it| it.facts.request_limit());
        self.context_window.or(facts)
    }

    /// How many tokens a request may have before the conversation is compacted.
    #[must_use]
    pub fn compacts_at(&self) -> Option<u64> {
        let share = self.compact_at?.clamp(0.0, 1.0);
        self.window().map(|window| (window as f64 * share) as u64)
    }

    /// The tools of REGISTRY that the requests of this session list: those that the user chose. They
    /// stay the same whatever the model asks for besides: a list that changes costs the provider's cache
    /// of all that follows it.
    #[must_use]
    pub fn listed(&self, registry: &Registry, offer: &Offer) -> Registry {
        let mut tools = self.tools.tools(registry);
        offer.keep_here(&mut tools);
        let listed = Registry::of(tools);
        let groups = offer.groups_beyond(&listed);
        if groups.is_empty() {
            listed.unregister(more::NAME);
            listed.unregister(more::CALL);
        } else if let Some(tool) = listed.get(more::NAME) {
            listed.add(Arc::new(more::choosing(&tool, &groups)));
        }
        listed
    }

    /// What becomes of calls of tools in REGISTRY that aren't offered.
    #[must_use]
    pub fn unoffered(&self, registry: &Registry) -> Unoffered {
        match self.agent {
            Some(_) => Unoffered::LeftOutByAgent,
            None => self.tools.unoffered(registry),
        }
    }

    /// What the project's people wrote for agents, where the model is to read it.
    #[must_use]
    pub fn guides(&self) -> Vec<Guide> {
        match (&self.ground.root, self.project_instructions) {
            (Some(root), ProjectInstructions::Read) => {
                guidance::read(Path::new(root), std::env::home_dir().as_deref())
            }
            _ => Vec::new(),
        }
    }

    /// The skills that the model can read.
    #[must_use]
    pub fn skills(&self) -> Vec<Skill> {
        let root = match self.project_instructions {
            ProjectInstructions::Read => self.ground.root.as_deref(),
            ProjectInstructions::Ignore => None,
        };
        let home = std::env::home_dir();
        let private = match &self.ground.private {
            Some(patterns) => PrivateFiles::new(patterns, home.as_deref()),
            None => PrivateFiles::new(DEFAULT_PATTERNS, home.as_deref()),
        };
        // Globs that can't be read are told of where files are used.
        let private = private.unwrap_or_else(|_| PrivateFiles::everything());
        let own = self.skills_directory.as_deref().map(Path::new);
        skills::find(root.map(Path::new), own, &private)
    }

    /// The system prompt of a request that lists TOOLS, which ends with SECTIONS, as `guidance` makes
    /// them.
    #[must_use]
    pub fn system_prompt(&self, tools: &Registry, sections: Option<&str>) -> String {
        let agent = self.agent.as_ref().map(|agent| agent.instruction.as_str());
        prefix::compose(agent, tools, sections)
    }
}
