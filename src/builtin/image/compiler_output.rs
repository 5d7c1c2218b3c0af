// SPDX-License-Identifier: GPL-3.0-or-later
//! What SBCL's compiler prints among a program's own output, in lines that start with a semicolon:
//! without what it says twice, and without what an error that follows says again.

/// OUTPUT without the compiler's summaries, and without its warnings of undefined names that ERROR,
/// the message of the error in which the call ended, is about.
#[must_use]
pub fn said_once(output: &str, error: Option<&str>) -> String {
    let lines: Vec<&str> = output.split('\n').collect();
    let kept: Vec<&str> = lines
        .chunk_by(|one, other| one.starts_with(';') == other.starts_with(';'))
        .flat_map(|run| match run.iter().any(|line| is_warning(line)) {
            true => worth_reading(run, error),
            false => run,
        })
        .copied()
        .collect();
    kept.join("\n")
}

fn is_warning(line: &str) -> bool {
    line.starts_with("; caught ") && line.ends_with(':')
}

/// The part of RUN, lines of the compiler's, that says something new.
fn worth_reading<'a, 'b>(run: &'b [&'a str], error: Option<&str>) -> &'b [&'a str] {
    let warnings: Vec<&str> = run
        .windows(2)
        .filter(|pair| is_warning(pair[0]))
        .map(|pair| pair[1])
        .collect();
    let repeats = |warning: &&str| error.is_some_and(|error| repeats(warning, error));
    if warnings.iter().all(repeats) {
        return &[];
    }
    let end = run
        .iter()
        .position(|line| line.starts_with("; compilation unit "))
        .unwrap_or(run.len());
    let blank = |line: &&str| line.trim_end() == ";";
    let end = end
        - run[..end]
            .iter()
            .rev()
            .take_while(|line| blank(line))
            .count();
    &run[..end]
}

/// Whether WARNING, as in ";   undefined function: PKG::NAME", is about the name that ERROR misses.
fn repeats(warning: &str, error: &str) -> bool {
    let said = warning.trim_start_matches([';', ' ']);
    ["undefined function: ", "undefined variable: "]
        .into_iter()
        .find_map(|start| said.strip_prefix(start))
        .is_some_and(|name| {
            let bare = name.rsplit(':').next().unwrap_or(name);
            error
                .split([' ', ':', '\n'])
                .any(|word| !bare.is_empty() && word.trim_end_matches('.') == bare)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNDEFINED: &str = "before
; in: F 1
;     (F 1)
; 
; caught STYLE-WARNING:
;   undefined function: COMMON-LISP-USER::F
; 
; compilation unit finished
;   Undefined function:
;     F
;   caught 1 STYLE-WARNING condition
after";

    #[test]
    fn what_the_error_says_is_not_said_again() {
        let error = "The function COMMON-LISP-USER::F is undefined.";
        assert_eq!(said_once(UNDEFINED, Some(error)), "before\nafter");
    }

    #[test]
    fn another_error_leaves_the_warning_and_loses_the_summary() {
        let warning = "before
; in: F 1
;     (F 1)
; 
; caught STYLE-WARNING:
;   undefined function: COMMON-LISP-USER::F
after";
        for error in [
            None,
            Some("The function COMMON-LISP-USER::FF is undefined."),
            Some("arithmetic error DIVISION-BY-ZERO signalled"),
        ] {
            assert_eq!(said_once(UNDEFINED, error), warning);
        }
    }

    #[test]
    fn another_warning_beside_it_keeps_both() {
        let two = "; caught WARNING:
;   Constant 1 conflicts with its asserted type LIST.
; 
; caught STYLE-WARNING:
;   undefined function: F";
        assert_eq!(said_once(two, Some("The function F is undefined.")), two);
    }

    #[test]
    fn lines_of_the_program_stay() {
        for own in [
            "; a comment\n;; another\n\nx",
            ";; compilation unit finished",
            "",
        ] {
            assert_eq!(said_once(own, Some("The function X is undefined.")), own);
        }
    }
}
