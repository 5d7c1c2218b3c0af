// SPDX-License-Identifier: GPL-3.0-or-later
//! Where the text of a result comes from. It is kept with the text, by what the call was about and
//! never by what the text says, so that the model's copy can be marked as data.

use crate::rules::TurnPlace;
use crate::tool::{Arguments, Content, Origin, Runner, Tool};
use crate::trust::{Provenance, Source};

/// The source of what a call of TOOL with ARGUMENTS in PLACE returns; PROVENANCE is what the
/// rules make of it.
pub(crate) fn of_call(
    tool: &Tool,
    arguments: &Arguments,
    place: &TurnPlace,
    provenance: Provenance,
) -> Source {
    let about = |category: &str| tool.categories.iter().any(|it| it == category);
    let mut paths = tool.paths.iter().filter_map(|name| arguments.text(name));
    let what = match (&tool.origin, &tool.runner) {
        (Origin::Image(program), _) => format!("the program in {program}"),
        (Origin::EmacsLisp | Origin::Library(_), _) => format!("the tool {}", tool.name),
        (Origin::BuiltIn, runner) => match (paths.next(), runner) {
            (Some(path), _) => format!("file {path}"),
            _ if about("buffer") => {
                let name = arguments.text("buffer");
                name.map_or("the user's buffer".into(), |name| format!("buffer {name}"))
            }
            (None, Runner::Image(_) | Runner::Operation(_)) => {
                let name = place.connection.as_deref();
                name.map_or("the image".into(), |name| format!("image {name}"))
            }
            _ if about("filesystem") => "the project".into(),
            _ => format!("the tool {}", tool.name),
        },
    };
    Source { what, provenance }
}

/// The source of CONTENT, a text of what OTHERWISE is the source of.
pub(crate) fn of_content(otherwise: Source, content: &Content) -> Source {
    Source {
        what: content.from.map_or(otherwise.what, str::to_owned),
        provenance: match content.provenance {
            Provenance::Foreign => Provenance::Foreign,
            Provenance::Own => otherwise.provenance,
        },
    }
}
