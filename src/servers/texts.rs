// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server has for the user, not for the model: prompts and resources, as they are chosen and sent from a
//! chat. All that comes is bounded, and what can't be typed or shown is left out.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{
    ArgumentInfo, GetPromptRequestParams, GetPromptResult, Prompt, ReadResourceRequestParams,
    Reference, Resource, ResourceTemplate, Role,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::connection::ServerConnection;
use super::content::{ServerPiece, bounded, piece, resource};
use super::server::ToolServer;
use crate::trust::one_line;
use crate::visible::is_hidden;

/// The most prompts, resources and templates that are offered, each.
const MOST: usize = 500;

/// The longest name or address that is offered, and how much of what is said of it is shown, in characters.
const LONGEST_NAME: usize = 1000;
const LONGEST_ABOUT: usize = 200;

/// The most pictures of one answer.
const MOST_PICTURES: usize = 20;

/// What Emacs asks a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextQuestion {
    /// Which prompts it has.
    Prompts,
    /// Which resources it has, and templates of their addresses.
    Resources,
    /// What a prompt says.
    Prompt {
        name: String,
        arguments: HashMap<String, String>,
    },
    /// What is at an address.
    Resource { uri: String },
    /// What the value of an argument of a prompt, or of a template, can be.
    Complete {
        of: Completed,
        argument: String,
        value: String,
        others: HashMap<String, String>,
    },
}

/// What has arguments that can be completed, by name or template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completed {
    Prompt(String),
    Template(String),
}

impl ToolServer {
    /// The answer to QUESTION, for Emacs. The server is started if it has to be.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(super) async fn look_up(self: &Arc<Self>, question: TextQuestion) -> Result<Value, String> {
        let connection = self.running().await.map_err(|failure| failure.message)?;
        let answer = self.look_up_by(&connection, question).await;
        if answer.is_ok() {
            self.note_alive();
        }
        answer
    }

    async fn look_up_by(
        &self,
        connection: &ServerConnection,
        question: TextQuestion,
    ) -> Result<Value, String> {
        let patience = self.settings().timeout();
        match question {
            TextQuestion::Prompts => prompts(connection).await,
            TextQuestion::Resources => resources(connection).await,
            TextQuestion::Prompt { name, arguments } => {
                let arguments = arguments.into_iter();
                let arguments: Map<String, Value> = arguments
                    .map(|(name, value)| (name, value.into()))
                    .collect();
                let asked = GetPromptRequestParams::new(name).with_arguments(arguments);
                connection.prompt(asked, patience).await.map(said)
            }
            TextQuestion::Resource { uri } => {
                let asked = ReadResourceRequestParams::new(uri);
                let read = connection.resource(asked, patience).await?;
                let pieces = read.contents.into_iter().map(resource).collect();
                readable(pieces)
            }
            TextQuestion::Complete {
                of,
                argument,
                value,
                others,
            } => {
                let of = match of {
                    Completed::Prompt(name) => Reference::for_prompt(name),
                    Completed::Template(uri) => Reference::for_resource(uri),
                };
                let values = connection
                    .completions(of, ArgumentInfo::new(argument, value), others)
                    .await?;
                let values: Vec<_> = values.into_iter().filter(|it| can_be_typed(it)).collect();
                Ok(json!(values))
            }
        }
    }
}

async fn prompts(connection: &ServerConnection) -> Result<Value, String> {
    let prompts = connection.prompts(MOST).await?;
    let shown = prompts.into_iter().filter(|it| can_be_typed(&it.name));
    Ok(shown.map(|it| shown_prompt(&it)).collect())
}

fn shown_prompt(prompt: &Prompt) -> Value {
    let arguments = prompt.arguments.iter().flatten();
    let arguments = arguments.filter(|it| can_be_typed(&it.name)).map(|it| {
        json!({
            "name": it.name,
            "about": about(it.description.as_deref().or(it.title.as_deref())),
            "required": it.required == Some(true),
        })
    });
    json!({
        "name": prompt.name,
        "about": about(prompt.description.as_deref().or(prompt.title.as_deref())),
        "arguments": arguments.collect::<Value>(),
    })
}

async fn resources(connection: &ServerConnection) -> Result<Value, String> {
    let resources = connection.resources(MOST).await?;
    let templates = connection.templates(MOST).await?;
    let resources = resources.iter().filter(|it| can_be_typed(&it.uri));
    let templates = templates.iter().filter(|it| can_be_typed(&it.uri_template));
    Ok(json!({
        "resources": resources.map(shown_resource).collect::<Value>(),
        "templates": templates.map(shown_template).collect::<Value>(),
        "completes": connection.completes(),
    }))
}

fn shown_resource(it: &Resource) -> Value {
    let title = it.title.as_deref().unwrap_or(&it.name);
    json!({"uri": it.uri, "about": about(Some(it.description.as_deref().unwrap_or(title)))})
}

fn shown_template(it: &ResourceTemplate) -> Value {
    let title = it.title.as_deref().unwrap_or(&it.name);
    json!({"uri": it.uri_template, "about": about(Some(it.description.as_deref().unwrap_or(title)))})
}

/// Whether NAME can be typed and read as it is: nothing in it hides something, and it can be put in quotes.
fn can_be_typed(name: &str) -> bool {
    !name.trim().is_empty()
        && name.chars().count() <= LONGEST_NAME
        && !name.chars().any(|it| it == '"' || is_hidden(it))
}

fn about(text: Option<&str>) -> String {
    one_line(text.unwrap_or_default().trim(), LONGEST_ABOUT)
}

/// What the messages of a prompt say. Who speaks is told where it is not the user alone.
fn said(prompt: GetPromptResult) -> Value {
    let is_dialogue = prompt.messages.iter().any(|it| it.role != Role::User);
    let mut pieces = Vec::new();
    for message in prompt.messages {
        if is_dialogue {
            let who = match message.role {
                Role::User => "User:",
                Role::Assistant => "Assistant:",
            };
            pieces.push(ServerPiece::Text(who.to_owned()));
        }
        let piece = piece(message.content);
        if is_dialogue && matches!(piece, ServerPiece::Picture(..)) {
            pieces.push(ServerPiece::Text("(a picture, attached)".to_owned()));
        }
        pieces.push(piece);
    }
    answered(pieces)
}

/// The answer of PIECES, each with its address.
fn readable(pieces: Vec<(String, ServerPiece)>) -> Result<Value, String> {
    let only_left_out = |it: &(String, ServerPiece)| matches!(it.1, ServerPiece::LeftOut(_));
    if pieces.is_empty() {
        return Err("The server returned nothing.".to_owned());
    }
    if pieces.iter().all(only_left_out) {
        let what = pieces.into_iter().map(|(_, piece)| piece.into_text());
        let what = what.collect::<Vec<_>>().join(", ");
        return Err(format!("This is neither a text nor a picture: {what}"));
    }
    let is_one = pieces.len() == 1;
    Ok(answered(pieces.into_iter().map(
        |(address, piece)| match piece {
            ServerPiece::Text(text) if !is_one => ServerPiece::Text(format!("{address}\n{text}")),
            piece => piece,
        },
    )))
}

/// The text of PIECES, how many characters it had, and the pictures.
fn answered(pieces: impl IntoIterator<Item = ServerPiece>) -> Value {
    let (mut texts, mut pictures) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            ServerPiece::Picture(_, data) if pictures.len() < MOST_PICTURES => pictures.push(data),
            piece => texts.push(piece.into_text()),
        }
    }
    let text = texts.join("\n\n");
    let total = text.chars().count();
    json!({"text": bounded(text), "total": total, "pictures": pictures})
}
