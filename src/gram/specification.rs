// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool specifications: a name, a description and a type signature, which can be written down and
//! sent around; what carries them out is found later, in a library.

use serde_json::{Value as Json, json};

use super::parser::parse;
use super::print::{Identifier, Quoted};
use super::signature::{path_of_text, signature_of_path};
use super::syntax::{Bracket, Datum, Document, Element, GramError, GramPath, quote};
use super::types::TypeSignature;

/// The labels of a tool's pattern: the contract's, and its implementation's.
const TOOL_LABELS: [&str; 2] = ["ToolSpecification", "Tool"];

/// The property that keeps blanks and comments around a signature, which its element cannot.
const VERBATIM_SIGNATURE: &str = "typeSignature";

/// Why a tool specification cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecificationError {
    #[error("Tool name cannot be empty")]
    EmptyName,
    #[error("Tool description cannot be empty")]
    EmptyDescription,
    #[error("Tool {part} cannot hold the NUL character, which gram has no place for")]
    Nul { part: &'static str },
    #[error(transparent)]
    Gram(#[from] GramError),
    #[error("expected {expected}, found {found}")]
    Json { expected: String, found: String },
}

/// What a tool is called, what it is for, and what it takes and gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpecification {
    name: String,
    description: String,
    type_signature: String,
    signature: TypeSignature,
    schema: Json,
}

impl ToolSpecification {
    /// The specification of the tool NAME.
    ///
    /// # Errors
    ///
    /// When the name or the description is empty, or TYPE_SIGNATURE isn't a type signature.
    pub fn create(
        name: &str,
        description: &str,
        type_signature: &str,
    ) -> Result<Self, SpecificationError> {
        if name.trim().is_empty() {
            return Err(SpecificationError::EmptyName);
        }
        if description.trim().is_empty() {
            return Err(SpecificationError::EmptyDescription);
        }
        for (part, text) in [("name", name), ("description", description)] {
            if text.contains('\0') {
                return Err(SpecificationError::Nul { part });
            }
        }
        let signature = super::signature::parse_type_signature(type_signature)?;
        Ok(Self::of(name, description, type_signature, signature))
    }

    fn of(name: &str, description: &str, text: &str, signature: TypeSignature) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            type_signature: text.to_owned(),
            schema: signature.json_schema(),
            signature,
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The type signature as its author wrote it, the source of truth.
    #[must_use]
    pub fn type_signature(&self) -> &str {
        &self.type_signature
    }

    /// What the type signature says.
    #[must_use]
    pub fn signature(&self) -> &TypeSignature {
        &self.signature
    }

    /// The JSON schema of the tool's parameters, made from the signature.
    #[must_use]
    pub fn schema(&self) -> &Json {
        &self.schema
    }

    /// The specification in gram.
    #[must_use]
    pub fn to_gram(&self) -> String {
        let text = &self.type_signature;
        let mut record = format!("  description: {}", Quoted(&self.description));
        let bare = path_of_text(text).is_ok_and(|path| path.span == (0..text.len()));
        if !bare {
            record.push_str(&format!(",\n  {VERBATIM_SIGNATURE}: {}", Quoted(text)));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let name = Identifier(&self.name);
        format!("[{name}:{} {{\n{record}\n}} |\n  {text}\n]", TOOL_LABELS[0])
    }

    /// Reads a specification that [`Self::to_gram`] or an author wrote.
    ///
    /// # Errors
    ///
    /// Where TEXT isn't the gram of one tool, and what was expected there.
    pub fn from_gram(text: &str) -> Result<Self, GramError> {
        let document = parse(text)?;
        let bracket = only_bracket(
            &document,
            text,
            "one tool, `[name:ToolSpecification {…} | …]`",
        )?;
        Self::from_bracket(bracket, text)
    }

    /// The specification that BRACKET, a part of SOURCE, writes.
    pub(super) fn from_bracket(bracket: &Bracket, source: &str) -> Result<Self, GramError> {
        let at = bracket.span.start;
        let fail = |at, expected: &str, found: &str| GramError::at(source, at, expected, found);
        let labelled = |label: &str| bracket.subject.labels.iter().any(|name| name.text == label);
        if !TOOL_LABELS.into_iter().any(labelled) {
            let expected = "a tool, with the label `Tool` or `ToolSpecification`";
            return Err(fail(at, expected, "a pattern without it"));
        }
        let name = identity(bracket, source, "Tool")?;
        let Some(description) = text_property(bracket, "description", source)? else {
            return Err(fail(at, "a tool with a `description`", "one without it"));
        };
        if description.text.trim().is_empty() {
            let expected = "a description; Tool description cannot be empty";
            return Err(fail(description.at, expected, &quote(description.text)));
        }
        let path = only_path(bracket, source)?;
        let signature = signature_of_path(path, source)?;
        let written = &source[path.span.clone()];
        let text = verbatim(bracket, written, source)?.unwrap_or(written);
        Ok(Self::of(name, description.text, text, signature))
    }

    /// The specification in JSON.
    #[must_use]
    pub fn to_json(&self) -> Json {
        json!({
            "name": self.name,
            "description": self.description,
            "typeSignature": self.type_signature,
            "schema": self.schema,
        })
    }

    /// Reads what [`Self::to_json`] wrote. The schema is rebuilt, whatever JSON says about it.
    ///
    /// # Errors
    ///
    /// When a field is missing or not a string, or as [`Self::create`].
    pub fn from_json(json: &Json) -> Result<Self, SpecificationError> {
        let field = |key: &str| {
            json.get(key)
                .and_then(Json::as_str)
                .ok_or_else(|| SpecificationError::Json {
                    expected: format!("an object with the string {key:?}"),
                    found: json
                        .get(key)
                        .map_or_else(|| "none".to_owned(), Json::to_string),
                })
        };
        Self::create(
            field("name")?,
            field("description")?,
            field("typeSignature")?,
        )
    }
}

/// A property that is a text, and where its value stands.
pub(super) struct TextProperty<'a> {
    pub text: &'a str,
    pub at: usize,
}

/// The text of BRACKET's property KEY; none when it isn't there.
pub(super) fn text_property<'a>(
    bracket: &'a Bracket,
    key: &str,
    source: &str,
) -> Result<Option<TextProperty<'a>>, GramError> {
    let Some(value) = bracket.subject.property(key) else {
        return Ok(None);
    };
    let at = value.span.start;
    match &value.datum {
        Datum::Text(text) | Datum::Tagged { text, .. } => Ok(Some(TextProperty { text, at })),
        other => {
            let found = super::syntax::describe(other);
            Err(GramError::at(
                source,
                at,
                format!("`{key}` to be a string"),
                found,
            ))
        }
    }
}

/// The name of the tool or agent that BRACKET writes: its identifier.
pub(super) fn identity<'a>(
    bracket: &'a Bracket,
    source: &str,
    what: &str,
) -> Result<&'a str, GramError> {
    let (at, found) = match &bracket.subject.identifier {
        Some(name) if !name.text.trim().is_empty() => return Ok(&name.text),
        Some(name) => (name.span.start, quote(&name.text)),
        None => (
            bracket.span.start,
            "a pattern without an identifier".to_owned(),
        ),
    };
    let expected = format!("a name as the pattern's identifier; {what} name cannot be empty");
    Err(GramError::at(source, at, expected, found))
}

/// The bracket that is the whole DOCUMENT, but for a header and annotations; EXPECTED says what.
pub(super) fn only_bracket<'a>(
    document: &'a Document,
    source: &str,
    expected: &str,
) -> Result<&'a Bracket, GramError> {
    let fail = |at, found: &str| GramError::at(source, at, expected, found);
    match document.patterns.as_slice() {
        [] => Err(fail(source.len(), "nothing")),
        [pattern] => match &pattern.element {
            Element::Bracket(bracket) => Ok(bracket),
            other => Err(fail(other.span().start, "a path")),
        },
        [_, second, ..] => Err(fail(second.element.span().start, "a second pattern")),
    }
}

fn only_path<'a>(bracket: &'a Bracket, source: &str) -> Result<&'a GramPath, GramError> {
    let (at, expected, found) = match bracket.elements.as_slice() {
        [Element::Path(path)] => return Ok(path),
        [] => (
            bracket.span.end - 1,
            "`|` and a type signature; a tool must have a type signature in its elements",
            "none",
        ),
        [other] => (other.span().start, "a type signature", "another pattern"),
        [_, second, ..] => (
            second.span().start,
            "exactly one type signature",
            "a second element",
        ),
    };
    Err(GramError::at(source, at, expected, found))
}

/// The signature with the blanks around it, when BRACKET keeps them; it must be the one WRITTEN.
fn verbatim<'a>(
    bracket: &'a Bracket,
    written: &str,
    source: &str,
) -> Result<Option<&'a str>, GramError> {
    let Some(kept) = text_property(bracket, VERBATIM_SIGNATURE, source)? else {
        return Ok(None);
    };
    let same = path_of_text(kept.text).is_ok_and(|path| kept.text[path.span] == *written);
    if !same {
        let expected = format!("`{VERBATIM_SIGNATURE}` to hold the signature of the element");
        return Err(GramError::at(source, kept.at, expected, "another text"));
    }
    Ok(Some(kept.text))
}
