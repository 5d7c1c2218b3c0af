// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server says of an error, read out of whatever it sent: all texts and codes at any depth, the
//! words of pages, and how long to wait. Pure; `error_words` judges it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encoding_rs::{Encoding, GB18030, UTF_8, WINDOWS_1252};
use serde_json::{Map, Value};

/// How deep errors are looked for in errors.
const DEEPEST: u32 = 20;

/// How many elements of a list are looked at.
const MOST_ELEMENTS: usize = 16;

/// Texts that say nothing where there are others.
const EMPTY_WORDS: &[&str] = &[
    "provider returned error",
    "upstream error",
    "upstream request failed",
    "bad request",
    "internal server error",
    "unprocessable entity",
    "invalid request",
    "unknown error",
    "an error occurred",
    "request failed",
    "validation error",
];

/// What a server says of an error.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ErrorReport {
    /// What it says, for people.
    pub message: String,
    /// All of its words at any depth, in small letters, a line for each text.
    pub said: String,
    /// What it calls the error, at any depth: its `code`, `type` and so on, in small letters.
    pub codes: Vec<String>,
    /// A status that it names itself.
    pub status: Option<u16>,
    /// The host behind the server, where the error is that host's.
    pub upstream: Option<String>,
    /// What the model wrote, where the server could not read it as a call.
    pub written: Option<String>,
    wait: Option<Duration>,
    /// When requests are taken again, from the epoch on.
    resets: Option<Duration>,
    texts: Vec<String>,
}

impl ErrorReport {
    /// The error that VALUE, part of a successful answer, is about, if it is.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        is_error(value).then(|| Self::of(value))
    }

    /// What the body of a refusal says. CONTENT_TYPE is its header.
    #[must_use]
    pub fn of_body(body: &[u8], content_type: Option<&str>) -> Self {
        let text = decoded_body(body, content_type);
        let text = text.trim_start_matches('\u{feff}').trim();
        match json_in(text) {
            Some(value) => Self::of(&value),
            None => Self::of_text(text),
        }
    }

    /// What a plain TEXT says.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let mut report = Self::default();
        report.take_text(text, 0);
        report.settled()
    }

    fn of(value: &Value) -> Self {
        let mut report = Self::default();
        report.take(value, 0);
        if report.texts.is_empty() {
            let code = report.codes.iter().find(|code| !is_number(code));
            let text = code.cloned().unwrap_or_else(|| value.to_string());
            report.texts.push(text);
        }
        report.settled()
    }

    /// How long the server wants one to wait who reads this NOW.
    #[must_use]
    pub fn wait(&self, now: SystemTime) -> Option<Duration> {
        let until = self.resets.and_then(|moment| {
            let now = now.duration_since(UNIX_EPOCH).ok()?;
            moment.checked_sub(now)
        });
        self.wait
            .or(until)
            .or_else(|| self.said.lines().find_map(wait_in_words))
    }

    /// The most tokens that it counts, as in "request (4932 tokens) exceeds the context size (4096 tokens)".
    #[must_use]
    pub fn most_tokens(&self) -> Option<u64> {
        let before = self
            .said
            .match_indices(" tokens")
            .map(|(end, _)| &self.said[..end]);
        let counts = before.filter_map(|before| {
            let digits = before.trim_end_matches(|digit: char| digit.is_ascii_digit());
            before[digits.len()..].parse().ok()
        });
        counts.max()
    }

    fn settled(mut self) -> Self {
        let telling = |text: &&String| {
            let words = text.to_lowercase();
            text.contains(char::is_whitespace)
                && !EMPTY_WORDS.contains(&words.trim_end_matches(['.', ':']))
        };
        let mut shown: Vec<&str> = Vec::new();
        let any = self.texts.iter().any(|text| telling(&text));
        for text in self.texts.iter().filter(|text| !any || telling(text)) {
            if shown.iter().any(|other| other.contains(text.as_str())) {
                continue;
            }
            shown.retain(|other| !text.contains(other));
            shown.push(text);
        }
        let mut message = String::new();
        for text in shown {
            match message.chars().last() {
                None => {}
                Some('.' | '!' | '?' | ':') => message.push(' '),
                Some(_) => message.push_str(": "),
            }
            message.push_str(text);
        }
        self.message = message;
        if let Some(upstream) = &self.upstream {
            self.message = format!("{upstream}: {}", self.message);
        }
        for text in &self.texts {
            self.said.push_str(&text.to_lowercase());
            self.said.push('\n');
        }
        self.texts.clear();
        self
    }

    fn take(&mut self, value: &Value, depth: u32) {
        match value {
            _ if depth > DEEPEST => {}
            Value::String(text) => self.take_text(text, depth),
            Value::Array(list) => {
                for element in list.iter().take(MOST_ELEMENTS) {
                    self.take(element, depth + 1);
                }
            }
            Value::Object(fields) => self.take_fields(fields, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn take_fields(&mut self, fields: &Map<String, Value>, depth: u32) {
        let named = || fields.iter().map(|(name, value)| (plain(name), value));
        // What an object says itself comes before what is inside of it.
        for (name, value) in named() {
            match (name.as_str(), value) {
                ("error" | "detail" | "errors", Value::String(text)) if !is_json(text) => {
                    self.take_text(text, depth);
                    self.take_code(value);
                }
                (
                    "message" | "msg" | "errormsg" | "errormessage" | "statusmsg" | "title"
                    | "errordescription" | "faultstring" | "exception",
                    Value::String(text),
                ) if !is_json(text) => self.take_text(text, depth),
                ("reason", Value::String(text)) if text.trim().contains(' ') => {
                    self.take_text(text, depth);
                }
                (
                    "code" | "type" | "status" | "errorcode" | "errortype" | "statuscode"
                    | "reason",
                    _,
                ) => self.take_code(value),
                ("param" | "loc" | "quotaid" | "field", _) => self.take_names(value),
                ("providername", Value::String(name)) if !name.is_empty() => {
                    self.upstream = Some(name.clone());
                }
                ("failedgeneration", written) => {
                    self.written = Some(match written {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    });
                }
                _ => self.take_wait(&name, value),
            }
        }
        for (name, value) in named() {
            let nested = matches!(value, Value::Object(_) | Value::Array(_))
                || value
                    .as_str()
                    .is_some_and(|text| name == "raw" || is_json(text));
            match name.as_str() {
                "error" | "errors" | "detail" | "details" | "message" | "msg" | "metadata"
                | "raw" | "baseresp" | "fault" | "cause" | "innererror" | "response" | "body"
                | "data" | "result" | "errormsg" | "errormessage" | "violations" | "issues"
                | "title" | "reason"
                    if nested =>
                {
                    self.take(value, depth + 1);
                }
                "choices" => {
                    let errors = value.as_array().into_iter().flatten();
                    for error in errors.filter_map(|choice| choice.get("error")) {
                        self.take(error, depth + 1);
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes in TEXT, which may be a page, or have JSON in it.
    fn take_text(&mut self, text: &str, depth: u32) {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || depth > DEEPEST {
            return;
        }
        if let Some(inner) = quoted(text) {
            self.take_text(&inner, depth + 1);
        } else if is_html(text) {
            let readable = readable_html(text);
            self.add_text(&readable);
        } else if let Some((before, inner)) = split_json(text) {
            let known = self.texts.len();
            self.add_text(before.trim_end_matches([' ', ':', '-', ',', '\n']));
            let own = self.texts.len();
            self.take(&inner, depth + 1);
            if self.texts.len() == own {
                // It is no error, but what the text is about.
                self.texts.truncate(known);
                self.add_text(text);
            }
        } else {
            self.add_text(text);
        }
    }

    fn add_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.texts.push(text.to_owned());
        }
    }

    fn take_code(&mut self, value: &Value) {
        let code = match value {
            Value::String(text) => text.trim().to_lowercase(),
            Value::Number(number) => number.to_string(),
            _ => return,
        };
        if code.is_empty() {
            return;
        }
        let status = code.parse().ok();
        self.status = self.status.or(status.filter(|it| (300..600).contains(it)));
        self.codes.push(code);
    }

    /// Takes in the names of the fields, or of the quotas, that the error is about.
    fn take_names(&mut self, value: &Value) {
        match value {
            Value::String(name) => {
                self.said.push_str(&name.to_lowercase());
                self.said.push('\n');
            }
            Value::Array(names) => names.iter().for_each(|name| self.take_names(name)),
            _ => {}
        }
    }

    /// Takes in VALUE, if a field of the plain NAME says with it how long to wait.
    fn take_wait(&mut self, name: &str, value: &Value) {
        let number = || match value {
            Value::String(text) => text.trim().parse::<f64>().ok(),
            other => other.as_f64(),
        };
        let text = || {
            value
                .as_str()
                .and_then(|text| wait_of(&text.to_lowercase()))
        };
        let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
        let wait = match name {
            "retrydelay" => text(),
            "retryafter" | "retryafterseconds" => number().and_then(seconds).or_else(text),
            "retryafterms" => number().and_then(|it| seconds(it / 1000.0)),
            "xratelimitreset" => {
                // Since the epoch, in seconds or milliseconds.
                self.resets = match number() {
                    Some(moment) if moment > 1e11 => seconds(moment / 1000.0),
                    Some(moment) if moment > 1e8 => seconds(moment),
                    _ => None,
                };
                None
            }
            "headers" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    self.take_wait(&plain(name), value);
                }
                None
            }
            _ => return,
        };
        self.wait = self.wait.or(wait.filter(|wait| !wait.is_zero()));
    }
}

/// NAME without what spellings differ in.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

fn is_number(code: &str) -> bool {
    code.bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Whether VALUE, part of a successful answer, is about an error.
fn is_error(value: &Value) -> bool {
    let fields = match value {
        Value::Array(list) => return list.first().is_some_and(is_error),
        Value::Object(fields) => fields,
        _ => return false,
    };
    let failed = |code: &Value| code.as_i64().is_some_and(|code| code != 0);
    fields
        .iter()
        .any(|(name, value)| match plain(name).as_str() {
            "error" | "errors" => !is_blank(value) && *value != Value::Bool(false),
            "message" | "msg" => value.is_string() && !is_blank(value),
            "detail" => !is_blank(value),
            "errormsg" | "errormessage" => {
                !is_blank(value) && fields.get("error_code").is_none_or(failed)
            }
            "baseresp" => value.get("status_code").is_some_and(failed),
            "success" => *value == Value::Bool(false),
            "choices" => {
                let mut choices = value.as_array().into_iter().flatten();
                choices.any(|choice| choice.get("error").is_some_and(|error| !is_blank(error)))
            }
            _ => false,
        })
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The JSON that a body is: all of it, its first line, or the data of its first event.
fn json_in(text: &str) -> Option<Value> {
    if is_json(text) {
        return first_json(text);
    }
    text.lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .find_map(|data| first_json(data.trim()).filter(|value| !value.is_string()))
}

fn first_json(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.next()?.ok()
}

/// What TEXT is, if it is a text of JSON.
fn quoted(text: &str) -> Option<String> {
    match text.starts_with('"') {
        true => serde_json::from_str(text).ok(),
        false => None,
    }
}

/// The first JSON object in TEXT, and what stands before it.
fn split_json(text: &str) -> Option<(&str, Value)> {
    let start = text.find(['{', '['])?;
    let value = first_json(&text[start..])?;
    let holds_object = match &value {
        Value::Array(list) => list.first().is_some_and(Value::is_object),
        other => other.is_object(),
    };
    holds_object.then_some((&text[..start], value))
}

/// The beginning of a text that somebody else wrote, on one line, short enough for a sentence.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut words = text.split_whitespace();
    let mut short = words.next().unwrap_or_default().to_owned();
    for word in words {
        if short.len() > LONGEST {
            break;
        }
        short.push(' ');
        short.push_str(word);
    }
    if let Some((end, _)) = short.char_indices().nth(LONGEST) {
        short.truncate(end);
        short.push('…');
    }
    short
}

// The words of a body that is not JSON: in any character set, and without the markup where it is HTML.

/// The text of BYTES, which came with the header CONTENT_TYPE.
#[must_use]
fn decoded_body(bytes: &[u8], content_type: Option<&str>) -> String {
    let encoding = match content_type.and_then(named) {
        Some(encoding) => encoding,
        None if std::str::from_utf8(bytes).is_ok() => UTF_8,
        None => guessed(bytes),
    };
    encoding.decode(bytes).0.into_owned()
}

fn named(content_type: &str) -> Option<&'static Encoding> {
    let (_, label) = content_type.split_once("charset=")?;
    let label = label.split(';').next().unwrap_or_default();
    Encoding::for_label(label.trim_matches(['"', '\'', ' ']).as_bytes())
}

/// The likeliest encoding of BYTES, which are no UTF-8: in Chinese, bytes beyond ASCII come in rows.
/// A body that was cut within a character is UTF-8 nevertheless.
fn guessed(bytes: &[u8]) -> &'static Encoding {
    let cut = std::str::from_utf8(bytes)
        .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() > 0);
    if cut {
        UTF_8
    } else if bytes
        .chunk_by(|left, right| left.is_ascii() == right.is_ascii())
        .any(|run| run.len() >= 4 && !run[0].is_ascii())
    {
        GB18030
    } else {
        WINDOWS_1252
    }
}

#[must_use]
fn is_html(text: &str) -> bool {
    let start = text.trim_start().get(..256).unwrap_or(text.trim_start());
    let start = start.to_ascii_lowercase();
    start.starts_with('<')
        && [
            "<!doctype",
            "<html",
            "<head",
            "<body",
            "<title",
            "<h1",
            "<center",
        ]
        .iter()
        .any(|tag| start.contains(tag))
}

/// What a reader sees of the page HTML: no tags, no styles, no scripts.
#[must_use]
fn readable_html(html: &str) -> String {
    // What these tags hold is not for readers.
    const UNSEEN: [&str; 4] = ["style", "script", "svg", "noscript"];
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let tag = &rest[start..];
        let end = if tag.starts_with("<!--") {
            tag.find("-->").map(|end| end + 3)
        } else {
            let begins = |name: &&&str| {
                let beginning = tag.as_bytes().get(1..=name.len());
                beginning.is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()))
            };
            let closing = UNSEEN
                .iter()
                .find(begins)
                .and_then(|name| tag.to_ascii_lowercase().find(&format!("</{name}")));
            let from = closing.unwrap_or(0);
            tag[from..].find('>').map(|end| from + end + 1)
        };
        text.push(' ');
        rest = end.map_or("", |end| &tag[end..]);
    }
    text.push_str(rest);
    for (entity, character) in [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    // A title is often the heading, too.
    let mut lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.dedup();
    lines
        .join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

// How long a server wants one to wait, as its words and fields say it: `1m30s`, "try again in 4.2s",
// "retry after 20 seconds".

/// What stands in front of a wait, in small letters.
const LEADS: &[&str] = &[
    "try again in",
    "try again after",
    "retry in",
    "retry after",
    "retrying in",
    "resets in",
    "reset in",
    "reset after",
    "available in",
    "wait for",
    "wait",
];

/// The wait that TEXT, in small letters, asks for.
#[must_use]
fn wait_in_words(text: &str) -> Option<Duration> {
    LEADS
        .iter()
        .flat_map(|lead| text.match_indices(lead))
        .find_map(|(start, lead)| wait_of(&text[start + lead.len()..]))
}

/// The time at the beginning of TEXT, in small letters: numbers with their units, largest first. A number
/// without a unit counts seconds.
#[must_use]
fn wait_of(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start_matches([' ', ':', '~', '"', '\'']);
    rest = rest.strip_prefix("about ").unwrap_or(rest);
    let mut seconds = None;
    loop {
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let Ok(number) = rest[..end].trim_end_matches('.').parse::<f64>() else {
            break;
        };
        let behind = rest[end..].trim_start();
        let word_end = behind
            .find(|character: char| !character.is_ascii_alphabetic())
            .unwrap_or(behind.len());
        let Some(unit) = unit(&behind[..word_end]) else {
            let alone = word_end == 0 && seconds.is_none();
            seconds = if alone { Some(number) } else { seconds };
            break;
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * unit);
        rest = behind[word_end..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    Duration::try_from_secs_f64(seconds?)
        .ok()
        .filter(|wait| !wait.is_zero())
}

/// The seconds of a unit called WORD.
fn unit(word: &str) -> Option<f64> {
    Some(match word {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 24.0 * 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_what_a_reader_sees() {
        let page = "<!DOCTYPE html><html><head><title>502</title>\n<style>h1 { color: red }</style>\
                    <!-- <p>no</p> --><script>if (1 < 2) {}</script></head>\n<BODY><h1>Bad&nbsp;gateway</h1>\
                    <p>It is &lt;down&gt; &amp; out.</p></BODY></html>";
        assert!(is_html(page));
        assert_eq!(readable_html(page), "502 Bad gateway It is <down> & out.");
        assert_eq!(readable_html("<p>cut <style>h1 {"), "cut h1 {");
        assert!(!is_html("<function=f>{}</function>"));
    }

    #[test]
    fn bodies_are_read_in_their_character_set() {
        let (text, chinese) = ("模型不存在", GB18030.encode("模型不存在").0);
        assert_eq!(decoded_body(&chinese, None), text);
        assert_eq!(
            decoded_body(&chinese, Some("text/html; charset=\"gbk\"")),
            text
        );
        assert_eq!(decoded_body(b"no caf\xe9 here", None), "no café here");
        assert_eq!(
            decoded_body("é, cut: é".as_bytes().split_last().unwrap().1, None),
            "é, cut: \u{fffd}"
        );
        assert_eq!(decoded_body(b"\xef\xbb\xbf{}", None), "{}");
    }

    #[test]
    fn waits_are_read_as_they_are_written() {
        for (text, seconds) in [
            ("please try again in 4.2s. visit our page", Some(4.2)),
            ("please retry after 20 seconds.", Some(20.0)),
            ("try again in 1m30s", Some(90.0)),
            ("try again in 22h12m3.5s.", Some(79_923.5)),
            ("retry in 6.534s.", Some(6.534)),
            ("try again in 100ms", Some(0.1)),
            ("try again in 5 minutes", Some(300.0)),
            ("try again in 1 hour and 2 minutes", Some(3720.0)),
            ("retry after 7", Some(7.0)),
            (
                "please wait 30 seconds before you try again later",
                Some(30.0),
            ),
            ("please wait. try again in 3s", Some(3.0)),
            ("try again in a few minutes", None),
            ("try again later", None),
            ("waiting for 3 people", None),
            ("retry after 0s", None),
            ("try again in 9e99 years", None),
        ] {
            let wait = wait_in_words(text).map(|wait| wait.as_secs_f64());
            assert_eq!(wait, seconds, "{text}");
        }
    }
}
