// SPDX-License-Identifier: GPL-3.0-or-later
//! The last of what a server wrote to its error output, and what became of it. In memory: a server that
//! floods its log fills no disk.

use std::sync::Mutex;

use crate::runtime::held;

/// The most that is kept, in bytes.
const MOST: usize = 64 * 1024;

/// How much of it a failure tells.
const TOLD: usize = 600;

#[derive(Debug, Default)]
pub(super) struct ServerLog(Mutex<String>);

impl ServerLog {
    /// Adds TEXT as the server wrote it.
    pub(super) fn add(&self, text: &str) {
        let log = &mut *held(&self.0);
        log.push_str(text);
        if log.len() > MOST {
            let cut = (log.len() - MOST / 2..=log.len()).find(|&it| log.is_char_boundary(it));
            log.drain(..cut.unwrap_or(0));
        }
    }

    /// Adds a line of agent-q's own.
    pub(super) fn note(&self, what: &str) {
        let ends = held(&self.0).is_empty() || held(&self.0).ends_with('\n');
        let start = if ends { "" } else { "\n" };
        self.add(&format!("{start}[agent-q] {what}\n"));
    }

    pub(super) fn text(&self) -> String {
        held(&self.0).clone()
    }

    /// The last lines that the server wrote itself, or nothing.
    pub(super) fn last_words(&self) -> String {
        let log = held(&self.0);
        let own: Vec<&str> = log
            .lines()
            .filter(|line| !line.starts_with("[agent-q]") && !line.trim().is_empty())
            .collect();
        let mut length = 0;
        let fits = |line: &&&str| {
            length += line.len() + 1;
            length <= TOLD
        };
        let mut last: Vec<&str> = own.iter().rev().take_while(fits).copied().collect();
        last.reverse();
        last.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_flood_is_kept() {
        let log = ServerLog::default();
        for line in 0..20_000 {
            log.add(&format!("liné {line}\n"));
        }
        log.note("ended");
        let text = log.text();
        assert!(text.len() <= MOST);
        assert!(text.ends_with("liné 19999\n[agent-q] ended\n"));
        assert!(log.last_words().ends_with("liné 19999"));
        assert!(log.last_words().len() <= TOLD);
    }
}
