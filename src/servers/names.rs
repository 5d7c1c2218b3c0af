// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tools of a server are called here: `getIssue` of github is `github_get_issue`. Pure.

/// The longest name that hosts take is 64 characters, and those of MCP servers put `mcp__agent-q__` before it.
const LONGEST: usize = 50;

/// What becomes of a name that has nothing in it that can be kept.
const NAMELESS: &str = "tool";

/// NAME in snake_case, of ASCII letters and digits alone.
#[must_use]
pub(super) fn snake_case(name: &str) -> String {
    let mut words = String::new();
    let characters: Vec<char> = name.chars().collect();
    for (index, &it) in characters.iter().enumerate() {
        if !it.is_ascii_alphanumeric() {
            push_bar(&mut words);
            continue;
        }
        let before = index.checked_sub(1).map(|index| characters[index]);
        let after = characters.get(index + 1);
        let begins_word = it.is_ascii_uppercase()
            && (before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
                || (before.is_some_and(|it| it.is_ascii_uppercase())
                    && after.is_some_and(char::is_ascii_lowercase)));
        if begins_word {
            push_bar(&mut words);
        }
        words.push(it.to_ascii_lowercase());
    }
    let words = words.trim_matches('_');
    match words {
        "" => NAMELESS.to_owned(),
        words => cut(words, LONGEST).to_owned(),
    }
}

fn push_bar(words: &mut String) {
    if !words.ends_with('_') {
        words.push('_');
    }
}

/// What the tool TOOL of the server in GROUP is called, where FREE says which names are.
#[must_use]
pub(super) fn of_tool(group: &str, tool: &str, free: impl Fn(&str) -> bool) -> String {
    let (group, tool) = (snake_case(group), snake_case(tool));
    let within = tool.strip_prefix(&group);
    let name = match within.is_some_and(|rest| rest.starts_with('_')) {
        true => tool,
        false => format!("{group}_{tool}"),
    };
    self::free(&name, free)
}

/// NAME, or with a number where it is not FREE.
#[must_use]
pub(super) fn free(name: &str, free: impl Fn(&str) -> bool) -> String {
    let name = cut(name, LONGEST);
    if free(name) {
        return name.to_owned();
    }
    (2_u64..)
        .map(|number| {
            let number = format!("_{number}");
            format!("{}{number}", cut(name, LONGEST - number.len()))
        })
        .find(|name| free(name))
        .unwrap_or_default()
}

/// At most LONGEST characters of NAME, which is ASCII.
fn cut(name: &str, longest: usize) -> &str {
    name.get(..longest).unwrap_or(name).trim_end_matches('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_their_servers_name_and_snake_case() {
        for (group, tool, name) in [
            ("github", "getIssue", "github_get_issue"),
            ("github", "github_get_issue", "github_get_issue"),
            ("git", "github", "git_github"),
            ("My Server", "list-all.items", "my_server_list_all_items"),
            ("db", "runSQLQuery2Fast", "db_run_sql_query2_fast"),
            ("db", "\u{202e}\u{43f}\u{440}", "db_tool"),
            ("é", "é", "tool_tool"),
        ] {
            assert_eq!(of_tool(group, tool, |_| true), name);
        }
    }

    #[test]
    fn names_are_short_and_numbered_where_they_are_taken() {
        let long = of_tool("server", &"x".repeat(100), |_| true);
        assert_eq!(long.len(), LONGEST);
        let next = of_tool("server", &"x".repeat(101), |it| it != long);
        assert_eq!(next.len(), LONGEST);
        assert!(next.ends_with("x_2"), "{next}");
        let taken = ["read_file", "read_file_2"];
        assert_eq!(
            of_tool("read", "file", |it| !taken.contains(&it)),
            "read_file_3"
        );
    }
}
