// SPDX-License-Identifier: GPL-3.0-or-later
//! What a model gets to read: texts capped in size, head and tail kept, the gap named.

/// The most bytes of one tool result that go to a model.
pub const RESULT_LIMIT: usize = 16 * 1024;

/// The share of the limit that goes to the head; ends of outputs tell more than their middles.
const HEAD_SHARE: f64 = 0.6;

/// TEXT as it is, or its head and tail within LIMIT bytes around a marker that says what was left
/// out. HINT tells how to get the rest.
#[must_use]
pub fn cap(text: &str, limit: usize, hint: &str) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head_end = text.floor_char_boundary_at((limit as f64 * HEAD_SHARE) as usize);
    let tail_start = text.ceil_char_boundary_at(text.len() - (limit - head_end));
    let omitted = &text[head_end..tail_start];
    format!(
        "{}\n[… {} characters in {} lines left out{}{} …]\n{}",
        &text[..head_end],
        omitted.chars().count(),
        omitted.lines().count(),
        if hint.is_empty() { "" } else { "; " },
        hint,
        &text[tail_start..]
    )
}

trait CharBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
    fn ceil_char_boundary_at(&self, index: usize) -> usize;
}

impl CharBoundary for str {
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        (0..=index)
            .rev()
            .find(|&it| self.is_char_boundary(it))
            .unwrap_or(0)
    }

    fn ceil_char_boundary_at(&self, index: usize) -> usize {
        (index..=self.len())
            .find(|&it| self.is_char_boundary(it))
            .unwrap_or(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_untouched() {
        assert_eq!(cap("abc", 3, "ask again"), "abc");
    }

    #[test]
    fn head_and_tail_survive_on_character_boundaries() {
        let text = format!("start{}end", "ü".repeat(1000));
        let capped = cap(&text, 100, "ask with offset");
        assert!(capped.starts_with("startü"));
        assert!(capped.ends_with("üend"));
        assert!(capped.contains("characters in 1 lines left out; ask with offset"));
        assert!(capped.len() < 220);
    }
}
