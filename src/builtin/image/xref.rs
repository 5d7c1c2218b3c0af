// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that follow names through the program: who uses what, and where it is defined.

use std::fs;

use lexpr::Value;

use super::common::{
    SYMBOL_SYNTAX, integer, labelled, looking, package_parameter, page_parameters, place_note,
    rest, text,
};
use super::outcome;
use super::timeouts::look_up;
use crate::builtin::files::change::look;
use crate::builtin::files::definitions::definition;
use crate::files::grep::{Case, FoundLines, Grep, grep};
use crate::image::{ImageReply, Plist, property_list};
use crate::tool::work::{Running, WorkContext};
use crate::tool::{Arguments, Content, ImageTool, Parameter, ParameterType, Tool, ToolFailure};

const CATEGORIES: &[&str] = &["introspection", "xref"];

/// How a definition is named, for the model.
const DEFINITION_SYNTAX: &str = "A name as in source: foo, pkg:foo, pkg::foo, |Foo|, #'foo or (setf foo). A method by qualifiers and specializers: area (square), area :around (square), (setf area) (t square)";

/// That the image ended its search when its time was up.
const CUT: &str = "The search was stopped after 1 s, so there may be more.";

#[must_use]
pub fn tools() -> Vec<Tool> {
    let mut tools = vec![who_calls(), who_references(), xref(), find_definition()];
    for tool in &mut tools {
        tool.instead = Some(match tool.name.as_str() {
            "find_definition" => |_, reply, context| definitions(reply, context),
            "who_calls" => |_, reply, context| mentions(reply, context, callers),
            "who_references" => |_, reply, context| mentions(reply, context, references),
            _ => |_, reply, context| mentions(reply, context, kind_of_use),
        });
    }
    tools
}

/// The first line on what was asked about, and what to say when it has no uses.
type Words = fn(&str, Plist<'_>) -> (String, String);

/// Where the sources mention what the image, by its REPLY, can't know all uses of or knows none of.
fn mentions(reply: &ImageReply, context: &WorkContext, words: Words) -> Option<Running<Content>> {
    if let Some(answer) = mentions_in_files(reply, context) {
        return Some(answer);
    }
    let data = outcome::returned(reply).ok()?;
    let name = data
        .text("search")
        .filter(|_| data.integer("total") == Some(0))?;
    let (_, none) = words(data.text("target").unwrap_or_default(), data);
    Some(unrecorded(none, name, context))
}

/// The parameters FIRST, package, limit and offset.
fn parameters(first: Vec<Parameter>) -> Vec<Parameter> {
    let mut parameters = first;
    parameters.push(package_parameter());
    parameters.extend(page_parameters(30, 200));
    parameters
}

fn who_calls() -> Tool {
    looking(
        "who_calls",
        "List the callers of a function, or the users of a macro, in compiled code. Top-level forms, macro templates and unloaded files are not recorded; use grep_project as well before you rename or delete.",
        CATEGORIES,
        parameters(vec![Parameter::required(
            "function",
            ParameterType::String,
            SYMBOL_SYNTAX,
        )]),
        ImageTool {
            operation: "who-calls",
            arguments: |arguments| named(arguments, "function"),
            render: |_, reply| users(outcome::returned(reply)?, callers),
            deadline: look_up,
        },
    )
}

fn who_references() -> Tool {
    looking(
        "who_references",
        "List the code that reads, sets or binds a global variable, with file and line. Use xref to list only one of these kinds.",
        CATEGORIES,
        parameters(vec![Parameter::required(
            "variable",
            ParameterType::String,
            SYMBOL_SYNTAX,
        )]),
        ImageTool {
            operation: "who-references",
            arguments: |arguments| named(arguments, "variable"),
            render: |_, reply| users(outcome::returned(reply)?, references),
            deadline: look_up,
        },
    )
}

fn xref() -> Tool {
    looking(
        "xref",
        "List cross-references by kind: callers or callees of a function, methods on a class, uses of a variable (references, sets, binds), users of a macro (macroexpands).",
        CATEGORIES,
        parameters(vec![
            Parameter::required("kind", ParameterType::String, "").one_of(&[
                "callers",
                "callees",
                "references",
                "sets",
                "binds",
                "macroexpands",
                "methods",
            ]),
            Parameter::required("name", ParameterType::String, SYMBOL_SYNTAX),
        ]),
        ImageTool {
            operation: "xref",
            arguments: |arguments| {
                property_list([
                    ("kind", text(arguments, "kind")),
                    ("name", text(arguments, "name")),
                    ("package", text(arguments, "package")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: |_, reply| users(outcome::returned(reply)?, kind_of_use),
            deadline: look_up,
        },
    )
}

fn named(arguments: &Arguments, name: &'static str) -> Value {
    property_list([
        (name, text(arguments, name)),
        ("package", text(arguments, "package")),
        ("limit", integer(arguments, "limit")),
        ("offset", integer(arguments, "offset")),
    ])
}

/// The first line on the callers of TARGET, and what to say when there are none.
fn callers(target: &str, data: Plist<'_>) -> (String, String) {
    match data.text("kind") {
        Some("macro") => (
            format!("{target}, a macro, is expanded by"),
            format!(
                "No code that expands the macro {target} is recorded. Top-level forms, macro templates and code that is not loaded are not."
            ),
        ),
        Some("undefined") => (
            format!("{target}, which is not defined, is called by"),
            format!(
                "{target} is not defined as a function, and no compiled code calls it. find_definition and apropos_search show the existing names."
            ),
        ),
        _ => (
            format!("{target} is called by"),
            format!(
                "No callers of {target} are recorded. Calls in top-level forms and macro templates, those that go through a symbol or a variable, or in code that is not loaded, are not."
            ),
        ),
    }
}

fn references(target: &str, data: Plist<'_>) -> (String, String) {
    let head = format!("{target} is used by");
    let none = match data.text("kind") {
        Some("constant") => format!(
            "No uses of {target} are recorded: it is a constant, and compilers put its value in its place."
        ),
        Some("no variable") => {
            format!("{target} is not a global variable, and nothing uses it as one.")
        }
        _ => format!(
            "No uses of {target} are recorded. Top-level forms, macro templates, symbol-value and code that is not loaded are not."
        ),
    };
    (head, none)
}

fn kind_of_use(target: &str, data: Plist<'_>) -> (String, String) {
    let kind = data.text("kind").unwrap_or_default();
    let (head, none) = match kind {
        "callees" => ("calls", "calls nothing that is recorded"),
        "references" => ("is referred to by", "is referred to by nothing recorded"),
        "binds" => ("is bound by", "is bound by nothing recorded"),
        "sets" => ("is set by", "is set by nothing recorded"),
        "macroexpands" => ("is expanded by", "is expanded by nothing recorded"),
        "methods" => ("has these methods", "has no methods specialized on it"),
        _ => ("is called by", "is called by nothing recorded"),
    };
    let more = match kind {
        "callees" | "methods" => "",
        _ => " Top-level forms, macro templates and code that is not loaded are not.",
    };
    (
        format!("{target} {head}"),
        format!("{target} {none}.{more}"),
    )
}

/// Caveat: uses that the image does not record (not for callees and methods).
fn not_recorded(data: Plist<'_>) -> Option<String> {
    let complete = matches!(data.text("kind"), Some("callees" | "methods"));
    (!complete).then(|| {
        "Top-level forms and macro templates are not recorded; a text search finds them.".to_owned()
    })
}

/// The users in DATA, by file; WORDS gives the first line, and what to say without any.
fn users(data: Plist<'_>, words: Words) -> Result<String, ToolFailure> {
    let total = data.integer("total").unwrap_or_default();
    let sites = data.integer("sites").unwrap_or(total);
    let (head, none) = words(data.text("target").unwrap_or_default(), data);
    let cut = data.flag("cut");
    if total == 0 {
        return Ok(if cut { CUT.to_owned() } else { none });
    }
    let places = if sites == total {
        String::new()
    } else {
        format!(", {sites} places")
    };
    let mut lines = vec![format!("{head} ({total}{places}):")];
    let users: Vec<Plist<'_>> = data.plists("users").collect();
    lines.extend(by_file(&users));
    lines.extend(rest(data, users.len()));
    lines.extend(cut.then(|| CUT.to_owned()));
    lines.extend(not_recorded(data));
    Ok(lines.join("\n"))
}

/// USERS under the names of their files, in the order of names and lines; last those without a file.
fn by_file(users: &[Plist<'_>]) -> Vec<String> {
    let mut placed: Vec<(bool, String, u64, String)> = users
        .iter()
        .map(|user| {
            let (file, line) = split_place(user.text("where").unwrap_or_default());
            let head = match file {
                "" => "without a file".to_owned(),
                _ => format!("{file}{}", place_note(*user)),
            };
            let number = line.parse().unwrap_or_default();
            (file.is_empty(), head, number, user_line(*user, line))
        })
        .collect();
    placed.sort_by(|one, other| (one.0, &one.1, one.2).cmp(&(other.0, &other.1, other.2)));
    placed
        .chunk_by(|one, other| one.1 == other.1)
        .flat_map(|entries| {
            let lines = entries.iter().map(|it| it.3.clone());
            std::iter::once(entries[0].1.clone()).chain(lines)
        })
        .collect()
}

/// "file:12" as the file and "12".
fn split_place(place: &str) -> (&str, &str) {
    match place.rsplit_once(':') {
        Some((file, line)) if line.parse::<u64>().is_ok() => (file, line),
        _ => (place, ""),
    }
}

fn user_line(user: Plist<'_>, line: &str) -> String {
    let mut text = String::from("  ");
    if !line.is_empty() {
        text.push_str(&format!("{line}: "));
    }
    text.push_str(user.text("what").unwrap_or_default());
    if let Some(count @ 2..) = user.integer("count") {
        text.push_str(&format!(" ×{count}"));
    }
    let ways = user.texts("ways");
    if !ways.is_empty() {
        text.push_str(&format!(" {}", ways.join(", ")));
    }
    text
}

fn find_definition() -> Tool {
    let mut parameters = vec![
        Parameter::required("symbol", ParameterType::String, DEFINITION_SYNTAX),
        Parameter::optional("kind", ParameterType::String, "").one_of(&[
            "function",
            "generic-function",
            "method",
            "macro",
            "compiler-macro",
            "variable",
            "constant",
            "class",
            "structure",
            "condition",
            "type",
            "setf",
        ]),
        package_parameter(),
    ];
    parameters.extend(page_parameters(10, 50));
    looking(
        "find_definition",
        "Show the source of a definition with file:line: function, macro, variable, class, all methods. Use it before you change one; describe_symbol only summarizes.",
        CATEGORIES,
        parameters,
        ImageTool {
            operation: "find-definition",
            arguments: |arguments| {
                property_list([
                    ("symbol", text(arguments, "symbol")),
                    ("kind", text(arguments, "kind")),
                    ("package", text(arguments, "package")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: render_definitions,
            deadline: look_up,
        },
    )
}

fn render_definitions(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let definitions: Vec<Plist<'_>> = data.plists("definitions").collect();
    let mut lines = Vec::new();
    let mut quoted = QuotedForms::default();
    for definition in &definitions {
        lines.extend(quoted.lines(*definition));
    }
    lines.extend(rest(data, definitions.len()));
    let unplaced = data.texts("unplaced");
    if let Some(source) = data.text("evaluated") {
        lines.push(format!(
            "{} was evaluated, not loaded from a file. The image has it as:\n{source}",
            data.text("name").unwrap_or_default()
        ));
    } else if !unplaced.is_empty() {
        lines.extend(labelled("Defined without a file", &unplaced));
    }
    if lines.is_empty() {
        lines.push(no_definition(data));
    }
    Ok(lines.join("\n"))
}

/// What a result has quoted: the form of a class has all its accessors in it.
#[derive(Default)]
struct QuotedForms<'a> {
    texts: Vec<&'a str>,
    size: usize,
    /// What was said of a file, after its name: each is said once.
    notes: Vec<(&'a str, String)>,
}

impl<'a> QuotedForms<'a> {
    fn lines(&mut self, definition: Plist<'a>) -> Vec<String> {
        let place = definition.text("where").unwrap_or("in an unknown place");
        let note = (split_place(place).0, place_note(definition));
        let what = definition.text("what").unwrap_or_default();
        let mut head = format!("{what} {place}");
        if !self.notes.contains(&note) {
            head.push_str(&note.1);
            self.notes.push(note);
        }
        let Some(source) = definition.text("text") else {
            return vec![head];
        };
        if self.texts.contains(&source) {
            head.push_str(", in the form above");
            return vec![head];
        }
        if self.size > 0 && self.size + source.len() > QUOTED {
            let how = "  (to see it, ask for this kind only, or read the file)";
            return vec![head, how.to_owned()];
        }
        self.size += source.len();
        self.texts.push(source);
        vec![head, source.trim_end().to_owned()]
    }
}

fn no_definition(data: Plist<'_>) -> String {
    let name = data.text("name").unwrap_or_default();
    let kinds = data.texts("kinds");
    if kinds.is_empty() {
        format!("{name} is only a symbol: the image has no definition of it.")
    } else {
        format!(
            "{name} is a {}, but the image does not know where it was defined. Search the sources.",
            kinds.join(" and a ")
        )
    }
}

// Text searches of the project's Lisp files, for what an image does not record: some
// implementations keep no cross-references, others forget where variables are defined.

const LISP_FILES: &str = "*.{lisp,lsp,cl,asd}";
/// How many lines a result shows.
const LINES: usize = 60;

/// How many characters of source text one result quotes; definitions after that only have places.
const QUOTED: usize = 9000;
/// How many definitions are shown whole.
const MOST_FORMS: u64 = 3;

/// Where the sources mention what the image, by its REPLY, has no cross-references of.
#[must_use]
fn mentions_in_files(reply: &ImageReply, context: &WorkContext) -> Option<Running<Content>> {
    let data = data(reply)?;
    let why = data.text("unavailable")?.to_owned();
    let context = context.clone();
    let Some(name) = data.text("search").map(str::to_owned) else {
        return Some(Box::pin(async move {
            Err(ToolFailure::new(format!(
                "{why} find_definition shows the source."
            )))
        }));
    };
    Some(Box::pin(async move {
        search(&mentions_of(&why, &name), mention(&name), &context).await
    }))
}

/// Where the sources mention NAME, of which the image has recorded no use, as NONE says.
#[must_use]
fn unrecorded(none: String, name: &str, context: &WorkContext) -> Running<Content> {
    let (context, name) = (context.clone(), name.to_owned());
    Box::pin(async move {
        let found = search(&mentions_of(&none, &name), mention(&name), &context).await;
        // What the image says holds, whether the files can be searched or not.
        found.or_else(|failure| Ok(Content::from(failure.message)))
    })
}

/// The head of a search for mentions of NAME, which is made because of WHY.
fn mentions_of(why: &str, name: &str) -> String {
    format!(
        "{why} This is a text search for {name} in the project's Lisp files, which finds definitions, comments and the same name in other packages, too."
    )
}

/// A regular expression that matches NAME where it is a whole name.
fn mention(name: &str) -> String {
    format!(r#"(?:^|[\s()'`,#@:"]){}(?:[\s()'"]|$)"#, words(name))
}

/// Where the sources define what the image, by its REPLY, does not know the place of, or does not
/// have at all: a framework's tests, and what is not loaded.
#[must_use]
pub fn definitions(reply: &ImageReply, context: &WorkContext) -> Option<Running<Content>> {
    let data = data(reply)?;
    let name = data.text("search")?.to_owned();
    let shown = data.text("name").unwrap_or(&name);
    let kinds = data.texts("kinds").join(" and a ");
    let known = match data.text("unknown") {
        Some(message) => message.to_owned(),
        None if data.flag("nameless") => {
            format!("{shown} is only a symbol: the image has no definition of it.")
        }
        None if kinds.is_empty() => {
            format!("{shown} is defined, but the image does not know where it was defined.")
        }
        None => format!("{shown} is a {kinds}, but the image does not know where it was defined."),
    };
    let missing = data.text("unknown").is_some();
    let context = context.clone();
    Some(Box::pin(async move {
        let pattern = definition_of(&name);
        let head = format!(
            "{known} This is a text search for definitions of {name} in the project's Lisp files."
        );
        let found = found(pattern, &context).await;
        match &found {
            Ok(None) if missing => return Err(ToolFailure::quoting(known)),
            Ok(Some(lines)) if lines.matches <= MOST_FORMS => {
                if let Some(forms) = forms(&name, lines, &context).await {
                    let from = if missing { ", not loaded" } else { "" };
                    return Ok(of_project(format!(
                        "{known} From the project's files{from}:\n{forms}"
                    )));
                }
            }
            _ => {}
        }
        told(&head, found)
    }))
}

/// A regular expression that matches the beginning of a definition of NAME.
fn definition_of(name: &str) -> String {
    format!(
        r#"^\s*\((?:[^\s():]+::?)?(?:def[^\s()]*|test)\s+(?:['"\#:][^\s()]+\s+)?\(?['"\#:]*(?:[^\s():]+::?)?{}(?:[\s()"]|$)"#,
        words(name)
    )
}

/// Where the project's files have the check EXPRESSION of TEST, or else that test; none unless there is one
/// such place.
pub(super) async fn place_of_check(
    test: &str,
    expression: Option<&str>,
    context: &WorkContext,
) -> Option<String> {
    let name = unqualified(test.rsplit([' ', '/']).next()?);
    let lines = found(definition_of(&name), context).await.ok()??;
    let [file] = lines.files.as_slice() else {
        return None;
    };
    let [first] = file.lines.as_slice() else {
        return None;
    };
    let shown = file.path.to_string_lossy().into_owned();
    let path = context.policy().await.ok()?.root().join(&file.path);
    let (first, wanted) = (first.number, expression.map(unqualified));
    let line = context
        .on_a_thread(move |_| {
            let text = fs::read_to_string(path).unwrap_or_default();
            Ok(wanted.and_then(|it| line_of_check(&text, first, &it)))
        })
        .await
        .ok()?;
    Some(format!("{shown}:{}", line.unwrap_or(first)))
}

/// How many lines a check may be spread over.
const LINES_OF_CHECK: usize = 8;

/// The line of TEXT where WANTED begins in the definition that begins at line FIRST, if it is there once.
fn line_of_check(text: &str, first: u64, wanted: &str) -> Option<u64> {
    let body: Vec<&str> = text
        .lines()
        .skip(usize::try_from(first).ok()?)
        .take_while(|line| !line.starts_with('('))
        .collect();
    let has = |start: usize| {
        let end = body.len().min(start + LINES_OF_CHECK);
        body.get(start..end)
            .is_some_and(|lines| unqualified(&lines.join(" ")).contains(wanted))
    };
    let mut hits = (0..body.len()).filter(|start| has(*start) && !has(start + 1));
    match (hits.next(), hits.next()) {
        (Some(only), None) => Some(first + 1 + only as u64),
        _ => None,
    }
}

/// TEXT in lower case, without packages, and with single blanks.
fn unqualified(text: &str) -> String {
    let words = text.split_whitespace().map(|word| {
        word.split_inclusive(['(', ')', '\'', '"'])
            .map(|part| match part.rsplit_once(':') {
                Some((package, name)) if !package.trim_end_matches(':').is_empty() => name,
                _ => part,
            })
            .collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn data(reply: &ImageReply) -> Option<Plist<'_>> {
    match reply {
        ImageReply::Returned(value) => Some(Plist::new(value)),
        _ => None,
    }
}

/// NAME for a regular expression, its words with any blanks between them.
fn words(name: &str) -> String {
    let words: Vec<String> = name
        .trim_end_matches(')')
        .split(' ')
        .map(regex::escape)
        .collect();
    words.join(r"\s+")
}

/// The whole definitions of NAME that FOUND has lines of, with their places; none where Emacs
/// doesn't find them all.
async fn forms(name: &str, found: &FoundLines, context: &WorkContext) -> Option<String> {
    let mut forms = Vec::new();
    for file in &found.files {
        let path = file.path.to_string_lossy();
        let target = context.resolve(&path).await.ok()?;
        let current = look(context, &target).await.ok()?;
        for line in &file.lines {
            let number = line.number;
            let named = format!("{name} (line {number})");
            let form = definition(&target, &current, &named, context).await?;
            forms.push(format!("{path}:{number}\n{form}"));
        }
    }
    let size: usize = forms.iter().map(String::len).sum();
    (size <= QUOTED).then(|| forms.join("\n"))
}

async fn search(
    head: &str,
    pattern: String,
    context: &WorkContext,
) -> Result<Content, ToolFailure> {
    told(head, found(pattern, context).await)
}

/// The lines of the project's Lisp files that have PATTERN in them, unless there are none.
async fn found(pattern: String, context: &WorkContext) -> Result<Option<FoundLines>, ToolFailure> {
    let (policy, root) = (context.policy().await?, context.resolve(".").await?);
    let what = Grep {
        glob: Some(LISP_FILES.to_owned()),
        case: Case::Insensitive,
        limit: LINES,
        ..Grep::new(&pattern)
    };
    let found = context
        .on_a_thread(move |stop| grep(&policy, &root, &what, stop))
        .await?;
    Ok((found.matches > 0).then_some(found))
}

/// HEAD with what was FOUND.
fn told(
    head: &str,
    found: Result<Option<FoundLines>, ToolFailure>,
) -> Result<Content, ToolFailure> {
    let text = match found {
        Ok(None) => format!("{head}\nIt found nothing."),
        Ok(Some(found)) => format!("{head}\n{}", found.lines().trim_end()),
        Err(failure) => return Err(ToolFailure::new(format!("{head} It failed: {failure}"))),
    };
    Ok(of_project(text))
}

fn of_project(text: String) -> Content {
    Content {
        from: Some("the project"),
        ..Content::from(text)
    }
}
