// SPDX-License-Identifier: GPL-3.0-or-later
//! Judging and reading the files that an image names, for Emacs, which finds definitions in them.

use std::sync::{Arc, Mutex};

use crate::files::{FileError, Trouble};
use crate::runtime::held;
use crate::workspace::ProjectSettings;
use crate::workspace::quoting::Quoting;

/// The last one that was made, with the JSON text that it was made from: a chat has many questions.
static LAST: Mutex<Option<(String, Arc<Quoting>)>> = Mutex::new(None);

/// By what files are judged where GROUND, JSON text, says that the project is.
pub fn quoting(ground: &str) -> Result<Arc<Quoting>, FileError> {
    let mut last = held(&LAST);
    if let Some((same, quoting)) = &*last
        && same == ground
    {
        return Ok(Arc::clone(quoting));
    }
    let parsed: ProjectSettings = serde_json::from_str(ground).map_err(|error| {
        FileError::new(
            Trouble::BadRequest,
            format!("The project is not understood: {error}."),
        )
    })?;
    let quoting = Arc::new(Quoting::new(&parsed)?);
    *last = Some((ground.to_owned(), Arc::clone(&quoting)));
    Ok(quoting)
}

/// What FILE holds, a character for each byte; nothing when it can't be read or may not be shown.
pub fn text(ground: &str, file: &str) -> Option<String> {
    let bytes = quoting(ground).and_then(|it| it.read(file)).ok()?;
    Some(bytes.into_iter().map(char::from).collect())
}
