// SPDX-License-Identifier: GPL-3.0-or-later
//! Replies of the Common Lisp half, parsed. They come from a program that anybody may have
//! changed, so whatever they are ends in a [`ImageReply`] or in a sentence.

use std::fmt;
use std::path::PathBuf;

use lexpr::Value;
use lexpr::parse::{KeywordSyntax, NilSymbol, Options, StringSyntax, TSymbol};

use super::{ConditionReport, Frame, ImageReply, Plist, Stopped};

/// How deep lists in a reply may be. Those that we send are less than ten deep.
const DEPTH_LIMIT: usize = 64;

/// A text that is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Cannot parse the reply of the Lisp image ({problem}). Its half of agent-q may have been changed; reconnect to send it again."
)]
pub struct MalformedReply {
    problem: String,
}

impl MalformedReply {
    /// For what PROBLEM says.
    pub fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
        }
    }
}

/// The reply that TEXT is.
///
/// # Errors
///
/// When TEXT is no reply.
pub fn parse_reply(text: &str) -> Result<ImageReply, MalformedReply> {
    parse_added(text, None).map(|(reply, _)| reply)
}

/// The reply that TEXT is with what Emacs ADDED, and in words the effects that were not allowed to its
/// code, each once. ADDED is a printed property list: `places` has the properties that replace each
/// `location` with a list, in their order, `because` is why the call was stopped.
///
/// # Errors
///
/// When TEXT is no reply, or ADDED doesn't fit it.
pub fn parse_added(
    text: &str,
    added: Option<&str>,
) -> Result<(ImageReply, Vec<String>), MalformedReply> {
    let mut value = parse(text)?;
    let added = added.map_or(Ok(Value::Null), parse)?;
    let added = Plist::new(&added);
    if added.flag("places") {
        value = placed(value, &mut added.list("places"))?;
    }
    let plist = Plist::new(&value);
    let mut denials: Vec<String> = Vec::new();
    for denial in plist.texts("denials") {
        if !denials.iter().any(|it| it == denial) {
            denials.push(denial.to_owned());
        }
    }
    Ok((reply_of(plist, added)?, denials))
}

/// VALUE with the properties in PLACES instead of each `location` with a list. Emacs walks the same way.
fn placed<'a>(
    value: Value,
    places: &mut impl Iterator<Item = &'a Value>,
) -> Result<Value, MalformedReply> {
    let Value::Cons(cons) = value else {
        return Ok(value);
    };
    let (elements, tail) = cons.into_vec();
    let mut elements = elements.into_iter().peekable();
    let mut placed_elements = Vec::new();
    while let Some(element) = elements.next() {
        if element.as_keyword() == Some("location") && elements.next_if(Value::is_cons).is_some() {
            let place = places.next();
            let place = place.ok_or_else(|| MalformedReply::new("a place is missing"))?;
            placed_elements.extend(super::elements(place).cloned());
        } else {
            placed_elements.push(placed(element, places)?);
        }
    }
    Ok(Value::append(placed_elements, tail))
}

fn reply_of(plist: Plist<'_>, added: Plist<'_>) -> Result<ImageReply, MalformedReply> {
    let outcome = plist
        .keyword("outcome")
        .ok_or_else(|| MalformedReply::new("it has no outcome"))?;
    match outcome {
        "returned" => Ok(ImageReply::Returned(data(plist))),
        "missed" => plist
            .text("message")
            .map(|message| ImageReply::Missed(message.to_owned()))
            .ok_or_else(|| MalformedReply::new("it has no message")),
        "error" => Ok(ImageReply::Error(error_report(plist))),
        "cancelled" => Ok(ImageReply::Cancelled(Stopped {
            because: match (added.text("because"), plist.flag("unclean")) {
                (Some(because), true) => Some(format!(
                    "{because}; its cleanup didn't end and was left out"
                )),
                (Some(because), false) => Some(because.to_owned()),
                (None, _) => plist.text("because").map(str::to_owned),
            },
            allocated: plist.text("allocated").map(str::to_owned),
            frames: plist.list("frames").filter_map(Frame::of).collect(),
            output: owned(plist, "output"),
            value: data(plist),
        })),
        other => Err(MalformedReply::new(format!("unknown outcome {other}"))),
    }
}

/// The files whose text REPLY quotes, as Emacs names them: those of definitions with their source.
#[must_use]
pub fn quoted_files(reply: &ImageReply) -> Vec<PathBuf> {
    let ImageReply::Returned(data) = reply else {
        return Vec::new();
    };
    Plist::new(data)
        .plists("definitions")
        .filter(|definition| definition.text("text").is_some())
        .filter_map(|definition| definition.text("where")?.rsplit_once(':'))
        .map(|(file, _line)| PathBuf::from(file))
        .filter(|file| file.is_absolute())
        .collect()
}

fn data(plist: Plist<'_>) -> Value {
    plist.get("value").cloned().unwrap_or(Value::Null)
}

fn error_report(plist: Plist<'_>) -> ConditionReport {
    ConditionReport {
        condition_type: plist.text("type").unwrap_or("ERROR").to_owned(),
        message: owned(plist, "message"),
        restarts: plist.list("restarts").filter_map(restart).collect(),
        frames: plist.list("frames").filter_map(Frame::of).collect(),
        output: owned(plist, "output"),
        value: data(plist),
        debugger: plist.text("debugger").map(str::to_owned),
    }
}

impl Frame {
    /// The frame that VALUE is: a text, or a property list with its place.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return Some(Self {
                text: text.to_owned(),
                place: None,
            });
        }
        let plist = Plist::new(value);
        let changed = match plist.flag("changed") {
            true => ", changed since it was compiled",
            false => "",
        };
        Some(Self {
            text: plist.text("text")?.to_owned(),
            place: plist.text("where").map(|place| format!("{place}{changed}")),
        })
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.place {
            Some(place) => write!(f, "  [{place}]"),
            None => Ok(()),
        }
    }
}

fn owned(plist: Plist<'_>, name: &str) -> String {
    plist.text(name).unwrap_or_default().to_owned()
}

fn restart(value: &Value) -> Option<(String, String)> {
    let pair = value.to_ref_vec()?;
    let mut texts = pair.into_iter().filter_map(Value::as_str);
    Some((
        texts.next()?.to_owned(),
        texts.next().unwrap_or_default().to_owned(),
    ))
}

/// The data that TEXT is, as the Common Lisp half writes it.
///
/// # Errors
///
/// When TEXT has any other syntax.
pub fn parse(text: &str) -> Result<Value, MalformedReply> {
    check(text)?;
    let options = Options::new()
        .with_keyword_syntax(KeywordSyntax::ColonPrefix)
        .with_nil_symbol(NilSymbol::EmptyList)
        .with_t_symbol(TSymbol::True)
        .with_string_syntax(StringSyntax::R6RS);
    lexpr::from_str_custom(text, options).map_err(|error| MalformedReply::new(error.to_string()))
}

/// Makes sure that TEXT only has the syntax that the Common Lisp half writes: lists, strings,
/// integers, keywords, nil and t. The parser knows more, some of it without a bound on its stack.
fn check(text: &str) -> Result<(), MalformedReply> {
    let mut depth = 0_usize;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '(' if depth == DEPTH_LIMIT => {
                return Err(MalformedReply::new("its lists are too deep"));
            }
            '(' => depth += 1,
            ')' => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| MalformedReply::new("a parenthesis too many"))?;
            }
            '"' => skip_string(&mut characters)?,
            ':' | '-' | ' ' | '\n' | '\t' => {}
            _ if character.is_ascii_alphanumeric() => {}
            _ => {
                return Err(MalformedReply::new(format!(
                    "{character:?} outside a string"
                )));
            }
        }
    }
    if depth > 0 {
        return Err(MalformedReply::new("it is cut off"));
    }
    Ok(())
}

fn skip_string(characters: &mut std::str::Chars<'_>) -> Result<(), MalformedReply> {
    while let Some(character) = characters.next() {
        match character {
            '"' => return Ok(()),
            '\\' => match characters.next() {
                Some('"' | '\\') => {}
                _ => return Err(MalformedReply::new("an unknown escape in a string")),
            },
            _ => {}
        }
    }
    Err(MalformedReply::new("a string is cut off"))
}
