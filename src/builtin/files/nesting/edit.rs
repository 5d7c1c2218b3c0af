// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes of a text by single characters.

/// A change of a text by one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneCharacter {
    Insert(usize, char),
    Delete(usize),
}

impl OneCharacter {
    /// The same in a text that has BY bytes more before it.
    #[must_use]
    pub fn moved(self, by: usize) -> Self {
        match self {
            Self::Insert(place, character) => Self::Insert(place + by, character),
            Self::Delete(place) => Self::Delete(place + by),
        }
    }

    #[must_use]
    pub fn place(self) -> usize {
        match self {
            Self::Insert(place, _) | Self::Delete(place) => place,
        }
    }
}

/// TEXT with EDITS, which are in the order of their places.
#[must_use]
pub fn apply(text: &str, edits: &[OneCharacter]) -> String {
    let mut made = String::with_capacity(text.len() + edits.len());
    let mut from = 0;
    for edit in edits {
        made.push_str(&text[from..edit.place()]);
        from = edit.place();
        match edit {
            OneCharacter::Insert(_, character) => made.push(*character),
            OneCharacter::Delete(_) => from += 1,
        }
    }
    made.push_str(&text[from..]);
    made
}
