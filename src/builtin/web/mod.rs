// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool that fetches a page from the web for a model: what the user and the rules are told of its address,
//! and what the model gets of it.

mod address;
mod fetching;
mod html;
mod media;
mod parts;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use self::address::{Address, Network};
use self::fetching::{Fetch, FetchFailure, Fetched, MOST_BYTES, Reach, Shortfall};
use self::html::{PageText, page_text};
use self::media::{Markup, visible};
use self::parts::{PagePart, parts};
use super::more;
use crate::rules::{Alarm, Alarms, FETCHES, FETCHING, PRIVATE_NETWORK};
use crate::tool::work::{FoundForCall, Running, WorkContext, off_emacs, read_reply};
use crate::tool::{Arguments, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::{Provenance, SafetyLevel, Source, draw, fence};
use crate::visible::spelled;

pub const NAME: &str = FETCHING;

const URL: &str = "url";
const FIND: &str = "find";
const TIMEOUT: &str = "timeout";

/// How long a page may take when the call doesn't say, and the longest that it may ask for, in seconds.
const USUAL_LIMIT: f64 = 20.0;
const LONGEST: f64 = 120.0;

/// How many parts of a page are kept to be read on.
const MOST_PARTS: usize = 40;

/// How much is told of a page that comes with an error.
const LONGEST_ERROR: usize = 1500;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![Tool {
        finding: Some(|arguments, context| Box::pin(find(arguments, context))),
        provenance: Provenance::Foreign,
        ..Tool::new(
            NAME,
            "Fetch a page or a text file from the web, such as documentation, and show its text. With a #fragment it begins at that part of the page. Scripts don't run, and nothing but the address is sent. What is on this machine already, such as a library's source, is better read there.",
            SafetyLevel::Dangerous,
            &["web"],
            vec![
                Parameter::required(URL, ParameterType::String, "https or http, whole"),
                Parameter::optional(
                    FIND,
                    ParameterType::String,
                    "A phrase: the part of the page that has it most often is shown",
                ),
                Parameter::optional(
                    PRIVATE_NETWORK,
                    ParameterType::Boolean,
                    "The host is in a private network",
                ),
                Parameter::optional(
                    TIMEOUT,
                    ParameterType::Number,
                    "Seconds, default 20, at most 120",
                ),
            ],
            Runner::Task(|arguments, context| -> Running {
                Box::pin(off_emacs(work(arguments, context)))
            }),
        )
    }]
}

// What is found out before anybody is asked. Nothing is sent by then, not even to find the host.

async fn find(arguments: Arguments, context: WorkContext) -> Result<FoundForCall, ToolFailure> {
    let given = arguments.required_text(URL);
    let address = Address::parse(given).map_err(ToolFailure::new)?;
    let mut remark = format!("asks {}", address.host());
    if address.url.as_str() != given.split('#').next().unwrap_or_default() {
        remark.push_str(&format!(" for {}", address.url));
    }
    if address.url.scheme() == "http" {
        remark.push_str(", unencrypted");
    }
    remark.push('.');
    let mut concerns = address.concerns();
    match (address.network(), arguments.flag(PRIVATE_NETWORK)) {
        (Some(Network::ThisMachine), _) => concerns.push("That is this machine.".to_owned()),
        (Some(Network::Private), _) => concerns.push("That is in a private network.".to_owned()),
        (None, true) => concerns.push("It may be this machine or in a private network.".to_owned()),
        (None, false) => {}
    }
    concerns.extend(private_files(&context).await?);
    let alarm = address.ruled_host().map(|host| Alarm {
        reason: FETCHES.to_owned(),
        operator: Some(host.to_owned()),
    });
    Ok(FoundForCall {
        remark,
        concerns,
        alarms: Some(Alarms::of_one(alarm)),
        ..FoundForCall::default()
    })
}

/// A sentence on the private files that the chat knows, whose text an address could carry.
async fn private_files(context: &WorkContext) -> Result<Option<String>, ToolFailure> {
    let workspace = Arc::clone(&context.workspace);
    let known = context.on_a_thread(move |_| Ok(workspace.known_secrets()));
    let names: Vec<String> = known
        .await?
        .iter()
        .map(|it| spelled(&it.file_name().unwrap_or_default().to_string_lossy(), 60))
        .collect();
    Ok((!names.is_empty()).then(|| {
        format!(
            "This chat has read what may hold secrets: {}.",
            names.join(", ")
        )
    }))
}

// The run.

async fn work(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let address = Address::parse(arguments.required_text(URL)).map_err(ToolFailure::new)?;
    let limit = arguments.number(TIMEOUT).filter(|it| *it > 0.0);
    let is_known = address.network().is_some() || arguments.flag(PRIVATE_NETWORK);
    let received = Arc::new(AtomicUsize::new(0));
    let asking = context.clone();
    let fetch = Fetch {
        reach: match is_known {
            true => Reach::Anywhere,
            false => Reach::Internet,
        },
        limit: Duration::from_secs_f64(limit.map_or(USUAL_LIMIT, |it| it.min(LONGEST))),
        route: Box::new(move |url| {
            let context = asking.clone();
            Box::pin(async move {
                let reply = context.ask_emacs("page-route", json!({"url": url})).await;
                let route = reply.and_then(|it| read_reply(&it));
                route.map_err(|failure| failure.message)
            })
        }),
        received: Arc::clone(&received),
        trail: context.trail.clone(),
    };
    let asked = address.url.to_string();
    let fetched = context
        .telling(fetch.run(address), || {
            match received.load(Ordering::Relaxed) {
                0 => "waiting for the server".to_owned(),
                bytes => format!("{} kB", bytes.div_ceil(1000)),
            }
        })
        .await
        .map_err(|failure| failed(&failure))?;
    let find = arguments.text(FIND).map(|it| it.trim().to_owned());
    let find = find.filter(|it| !it.is_empty());
    let reading = context.clone();
    let read = context.on_a_thread(move |_| {
        let page = page(&fetched);
        Ok(match fetched.status.is_success() {
            true => Ok(told_of(
                (&page, find.as_deref()),
                (&fetched, &asked),
                &reading,
            )),
            false => Err(refused(&page, &fetched)),
        })
    });
    read.await?
}

fn failed(failure: &FetchFailure) -> ToolFailure {
    let message = failure.to_string();
    match failure {
        // The settings are the user's, and no server has said anything.
        FetchFailure::Settings(_) | FetchFailure::Private { .. } | FetchFailure::Silent { .. } => {
            ToolFailure::new(message)
        }
        _ => ToolFailure::quoting(message),
    }
}

/// The text of a page that was FETCHED.
fn page(fetched: &Fetched) -> PageText {
    let text = fetched.media.text(&fetched.body);
    let fragment = fetched.address.fragment.as_deref();
    match fetched.media.markup(&fetched.body) {
        Markup::Html => page_text(&text, &fetched.address.url, fragment),
        Markup::Plain => PageText {
            text: visible(&text),
            ..PageText::default()
        },
    }
}

/// What the model reads of PAGE, which came with an error.
fn refused(page: &PageText, fetched: &Fetched) -> ToolFailure {
    let text: String = page.text.trim().chars().take(LONGEST_ERROR).collect();
    ToolFailure::quoting(
        format!(
            "{} answered {}.\n{text}",
            fetched.address.url, fetched.status
        )
        .trim_end(),
    )
}

/// What the model reads of PAGE, which was FETCHED when ASKED for an address: the part that has most of what is
/// to be found, or the first. Others are kept for it.
fn told_of(
    (page, find): (&PageText, Option<&str>),
    (fetched, asked): (&Fetched, &str),
    context: &WorkContext,
) -> String {
    let address = &fetched.address;
    let mut told = String::new();
    if !page.title.is_empty() {
        told.push_str(&format!("Title: {}\n", page.title));
    }
    if address.url.as_str() != asked {
        told.push_str(&format!("Now at: {}\n", address.url));
    }
    if !told.is_empty() {
        told.push('\n');
    }
    let parts = parts(page, &address.url);
    let counts: Vec<usize> = parts
        .iter()
        .map(|part| find.map_or(0, |words| part.count(words)))
        .collect();
    let most = counts.iter().copied().max().unwrap_or_default();
    let shown = counts.iter().position(|it| *it == most).unwrap_or(0);
    told.push_str(&parts[shown].text);
    if page.text.trim().is_empty() {
        told.push_str("(The page has no text; it may be made by scripts, which don't run here.)");
    }
    for note in notes((page, find.filter(|_| most == 0)), fetched) {
        told.push_str(&format!("\n({note})"));
    }
    told + &kept(&parts, &counts, shown, (address, context))
}

/// What there is to know of a page that isn't as it was wanted: where the words MISSED are not in it, among
/// others.
fn notes((page, missed): (&PageText, Option<&str>), fetched: &Fetched) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(fragment) = fetched
        .address
        .fragment
        .as_deref()
        .filter(|_| page.start.is_none())
    {
        notes.push(format!(
            "The page has no part #{}, so this is its beginning.",
            spelled(fragment, 100)
        ));
    }
    notes.extend(missed.map(|it| format!("The page does not have '{}'.", spelled(it, 100))));
    notes.extend(fetched.cut.map(|cut| match cut {
        Shortfall::TooLong => format!(
            "Only the first {} MB of the page were read.",
            MOST_BYTES / 1_000_000
        ),
        Shortfall::TooSlow => "The page was not whole by the time limit.".to_owned(),
        Shortfall::Lost => "The connection was lost before the page was whole.".to_owned(),
    }));
    notes
}

/// Keeps PARTS of the page at an address, but for the one SHOWN, and says how they are read; COUNTS is how often
/// each has what is to be found. Those that have it are kept before others.
fn kept(
    parts: &[PagePart],
    counts: &[usize],
    shown: usize,
    (address, context): (&Address, &WorkContext),
) -> String {
    let mut others: Vec<usize> = (0..parts.len()).filter(|it| *it != shown).collect();
    if others.is_empty() {
        return String::new();
    }
    others.sort_by_key(|it| counts[*it] == 0);
    let more = others.len().saturating_sub(MOST_PARTS);
    others.truncate(MOST_PARTS);
    others.sort_unstable();
    let source = Source {
        what: format!("page {}", address.url),
        provenance: Provenance::Foreign,
    };
    let mut told = format!(
        "\n\n(This is part {} of {}. {} shows others, by their numbers:",
        shown + 1,
        parts.len(),
        more::calling(more::READ_RESULT, &context.offer)
    );
    for part in others {
        let text = fence(&parts[part].text, &source, draw());
        let number = context.past.keep_part(&text);
        told.push_str(&format!("\n{number}: {}", parts[part].sections));
        told.push_str(&match counts[part] {
            0 => String::new(),
            1 => " (found once)".to_owned(),
            count => format!(" (found {count} times)"),
        });
    }
    if more > 0 {
        told.push_str(&format!(
            "\n{more} more aren't kept; fetch the page with \"find\", or with the #fragment of a part."
        ));
    }
    told + ")"
}
