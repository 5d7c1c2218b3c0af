// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server's result says, as text for a model. Pure.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

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
    let mut parts: Vec<String> = result.content.into_iter().map(part).collect();
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

fn part(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => left_out("picture", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => left_out("sound", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => resource(embedded.resource),
        ContentBlock::ResourceLink(link) => format!(
            "[resource {}: {}]",
            one_line(&link.uri, LONGEST_NAME),
            one_line(&link.name, LONGEST_NAME)
        ),
        _ => "[something of a kind that agent-q doesn't know]".to_owned(),
    }
}

/// The text of a RESOURCE, after its address.
pub(super) fn resource(resource: ResourceContents) -> String {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {}]\n{text}", one_line(&uri, LONGEST_NAME))
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => format!(
            "[resource {}]\n{}",
            one_line(&uri, LONGEST_NAME),
            left_out("data", &mime_type.unwrap_or_default(), &blob)
        ),
        _ => "[a resource of a kind that agent-q doesn't know]".to_owned(),
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
