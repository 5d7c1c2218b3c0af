// SPDX-License-Identifier: GPL-3.0-or-later
//! Characters that can't be seen, or change the order of others, in names that models, servers and
//! images give: such a name could look like another one, or hide words for a model. Emacs has the
//! same for what it shows, in `agent-q-text.el`.

/// Whether a reader sees nothing of IT.
#[must_use]
pub fn is_hidden(it: char) -> bool {
    it.is_control()
        || matches!(it,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// At most LONGEST characters of NAME, which somebody else gave, as part of a sentence of ours: what
/// can't be seen is spelled out, also the end of a line.
#[must_use]
pub fn spelled(name: &str, longest: usize) -> String {
    let mut text = String::with_capacity(name.len().min(longest));
    for it in name.chars().take(longest) {
        if is_hidden(it) {
            text.extend(it.escape_default());
        } else {
            text.push(it);
        }
    }
    if name.chars().nth(longest).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_spelled_out_and_what_is_seen_stays() {
        for hidden in [
            "\n",
            "\r",
            "\0",
            "\u{7f}",
            "\u{85}",
            "\u{ad}",
            "\u{34f}",
            "\u{115f}",
            "\u{1160}",
            "\u{180e}",
            "\u{200b}",
            "\u{200d}",
            "\u{2028}",
            "\u{202e}",
            "\u{2066}",
            "\u{3164}",
            "\u{fe0f}",
            "\u{feff}",
            "\u{ffa0}",
            "\u{fff9}",
            "\u{e0001}",
            "\u{e0041}",
            "\u{e0100}",
        ] {
            let text = spelled(&format!("a{hidden}b"), 10);
            assert!(text.starts_with("a\\") && text.ends_with('b'), "{text}");
            assert!(!text.contains(hidden), "{text}");
        }
        for seen in ["describe_symbol", "größe", "名前", "a b", "👍", "\\n"] {
            assert_eq!(spelled(seen, 20), seen);
        }
    }

    /// What Emacs shows and what it is sent are judged alike.
    #[test]
    fn emacs_knows_the_same() {
        let text = include_str!("../lisp/agent-q-text.el");
        let (_, list) = text
            .split_once("agent-q-text-visible-ignorable\n    '(")
            .unwrap();
        let (list, _) = list.split_once("\n    \"").unwrap();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        let mut range = false;
        for word in list.split_whitespace() {
            match word.trim_matches(['(', ')']).strip_prefix("#x") {
                Some(number) => {
                    let number = u32::from_str_radix(number, 16).unwrap();
                    match ranges.last_mut() {
                        Some(last) if range => last.1 = number,
                        _ => ranges.push((number, number)),
                    }
                    range = false;
                }
                None => range = true,
            }
        }
        for it in '\0'..=char::MAX {
            let known = ranges
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&u32::from(it)));
            assert_eq!(is_hidden(it), it.is_control() || known, "{it:?}");
        }
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(spelled("abcdef", 3), "abc…");
        assert_eq!(spelled("abc", 3), "abc");
    }
}
