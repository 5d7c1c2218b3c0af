// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads how long a server wants a client to wait, as its words and its fields say it: `1m30s`, "try again
//! in 4.2s", "retry after 20 seconds". Pure.

use std::time::Duration;

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
pub fn in_words(text: &str) -> Option<Duration> {
    LEADS
        .iter()
        .flat_map(|lead| text.match_indices(lead))
        .find_map(|(start, lead)| duration(&text[start + lead.len()..]))
}

/// The time at the beginning of TEXT, in small letters: numbers with their units, largest first. A number
/// without a unit counts seconds.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
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
            let wait = in_words(text).map(|wait| wait.as_secs_f64());
            assert_eq!(wait, seconds, "{text}");
        }
    }
}
