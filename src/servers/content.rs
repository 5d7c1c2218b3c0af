// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server's result says, as text for a model. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::protocol::picture::Picture;
use crate::tool::ToolFailure;
use crate::trust::one_line;

/// The most of a result that is kept, in bytes; the model gets less at once.
const MOST: usize = 256 * 1024;

/// How much of a name that a server gave is told.
const LONGEST_NAME: usize = 200;

/// The text of RESULT.
///
/// # Errors
///
/// When the server says that the call failed: its words on that.
pub(super) fn text(result: CallToolResult) -> Result<String, ToolFailure> {
    let parts = result.content.into_iter();
    let mut parts: Vec<String> = parts.map(|it| piece(it).into_text()).collect();
    if parts.is_empty()
        && let Some(data) = &result.structured_content
    {
        parts.push(data.to_string());
    }
    let text = bounded(parts.join("\n"));
    match (result.is_error, text.is_empty()) {
        (Some(true), true) => Err(ToolFailure::new("The server says that the call failed.")),
        (Some(true), false) => Err(ToolFailure::quoting(text)),
        (_, true) => Ok("(The server returned nothing.)".to_owned()),
        (_, false) => Ok(text),
    }
}

/// A piece of what a server sends.
pub(super) enum ServerPiece {
    Text(String),
    /// Its kind, and its bytes in base64.
    Picture(String, String),
    /// What no model reads, in a few words.
    LeftOut(String),
}

impl ServerPiece {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::LeftOut(text) => text,
            Self::Picture(kind, data) => left_out("picture", &kind, &data),
        }
    }
}

pub(super) fn piece(block: ContentBlock) -> ServerPiece {
    match block {
        ContentBlock::Text(text) => ServerPiece::Text(text.text),
        ContentBlock::Image(image) => picture(image.mime_type, image.data),
        ContentBlock::Audio(audio) => {
            ServerPiece::LeftOut(left_out("sound", &audio.mime_type, &audio.data))
        }
        ContentBlock::Resource(embedded) => match resource(embedded.resource) {
            (address, ServerPiece::Text(text)) => ServerPiece::Text(format!("{address}\n{text}")),
            (address, ServerPiece::LeftOut(text)) => {
                ServerPiece::LeftOut(format!("{address}\n{text}"))
            }
            (_, picture) => picture,
        },
        ContentBlock::ResourceLink(link) => ServerPiece::Text(format!(
            "[resource {}: {}]",
            one_line(&link.uri, LONGEST_NAME),
            one_line(&link.name, LONGEST_NAME)
        )),
        _ => ServerPiece::LeftOut("[something of a kind that agent-q doesn't know]".to_owned()),
    }
}

/// A RESOURCE: its address, as a line, and what is there.
pub(super) fn resource(resource: ResourceContents) -> (String, ServerPiece) {
    let address = |uri: &str| format!("[resource {}]", one_line(uri, LONGEST_NAME));
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            (address(&uri), ServerPiece::Text(text))
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => (address(&uri), of_bytes(mime_type.unwrap_or_default(), blob)),
        _ => (
            String::new(),
            ServerPiece::LeftOut("[a resource of a kind that agent-q doesn't know]".to_owned()),
        ),
    }
}

/// What DATA in base64, said to be of KIND, is. Text is sent so, too.
fn of_bytes(kind: String, data: String) -> ServerPiece {
    let is_text = kind.starts_with("text/") || kind.contains("json") || kind.contains("xml");
    let text = || String::from_utf8(STANDARD.decode(&data).ok()?).ok();
    match is_text.then(text).flatten() {
        Some(text) => ServerPiece::Text(text),
        None if kind.starts_with("image/") => picture(kind, data),
        None => ServerPiece::LeftOut(left_out("data", &kind, &data)),
    }
}

/// The picture that DATA says in base64, if hosts take it.
fn picture(kind: String, data: String) -> ServerPiece {
    match Picture::read(&data) {
        Ok(_) => ServerPiece::Picture(kind, data),
        Err(_) => ServerPiece::LeftOut(left_out("picture", &kind, &data)),
    }
}

/// What is said instead of DATA in base64.
fn left_out(what: &str, kind: &str, data: &str) -> String {
    let size = data.len() / 4 * 3;
    let size = match size {
        0..1024 => format!("{size} bytes"),
        _ => format!("{} kB", size.div_ceil(1024)),
    };
    let kind = one_line(kind, LONGEST_NAME);
    let kind = if kind.is_empty() {
        kind
    } else {
        format!(", {kind}")
    };
    format!("[{what}, {size}{kind}]")
}

/// TEXT within the limit.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > MOST {
        let all = text.len();
        let end = (0..=MOST).rev().find(|&it| text.is_char_boundary(it));
        text.truncate(end.unwrap_or(0));
        text.push_str(&format!(
            "\n[… the server sent {} kB, of which this is the beginning …]",
            all / 1024
        ));
    }
    text
}
