// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that measure code: what alternatives cost, and in which functions a form spends its time.

use super::common::{counted, image_parameter, package_parameter, text};
use super::execution::{FORMS, evaluated_parameter};
use super::outcome;
use super::timeouts::{timeout, timeout_parameter};
use crate::image::{ImageReply, Plist, property_list};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![compare_forms(), profile_form()]
}

fn measuring(
    name: &str,
    description: &str,
    form: Parameter,
    operation: &'static str,
    render: fn(&Arguments, &ImageReply) -> Result<String, ToolFailure>,
) -> Tool {
    let mut tool = Tool::new(
        name,
        description,
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            form,
            package_parameter(),
            timeout_parameter(),
            image_parameter(),
        ],
        Runner::Image(ImageTool {
            operation,
            arguments: |arguments| {
                property_list(["form", "package"].map(|name| (name, text(arguments, name))))
            },
            render,
            deadline: timeout,
        }),
    );
    tool.code = Some(FORMS);
    tool
}

fn compare_forms() -> Tool {
    measuring(
        "compare_forms",
        "Measure time and allocation of forms side by side, compiled, and tell whether their values differ. Each runs many times. Make their data beforehand with eval_form.",
        Parameter::required(
            "form",
            ParameterType::String,
            "The alternatives: complete forms, one after the other",
        ),
        "compare-forms",
        render_comparison,
    )
}

fn render_comparison(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let alternatives: Vec<Plist<'_>> = data.plists("alternatives").collect();
    let times = alternatives
        .iter()
        .filter_map(|it| it.integer("picoseconds"));
    let fastest = times.min();
    let mut lines: Vec<String> = alternatives
        .iter()
        .enumerate()
        .map(|(index, it)| measured(index + 1, *it, fastest))
        .collect();
    if let Some(first) = alternatives.iter().find(|it| it.get("rounds").is_some()) {
        lines.push(format!(
            "Each: the median of {} of compiled code, {} of the first.",
            counted(first.integer("rounds").unwrap_or_default(), "round"),
            counted(first.integer("runs").unwrap_or_default(), "run")
        ));
    }
    lines.extend(values(&alternatives));
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    Ok(lines.join("\n"))
}

/// What one alternative took, beside the FASTEST.
fn measured(number: usize, alternative: Plist<'_>, fastest: Option<i64>) -> String {
    let form = alternative.text("form").unwrap_or_default();
    let Some(time) = alternative.integer("picoseconds") else {
        let error = alternative.text("error").unwrap_or("an error");
        return format!("{number}. not measured: {form}\n   {error}");
    };
    let ratio = time as f64 / fastest.unwrap_or(time).max(1) as f64;
    let allocated = alternative.integer("bytes").map_or(String::new(), |bytes| {
        format!(", {} allocated", size(bytes))
    });
    format!(
        "{number}. {} ({ratio:.2} x){allocated}: {form}",
        duration(time)
    )
}

/// Whether all ALTERNATIVES that ended have the same values.
fn values(alternatives: &[Plist<'_>]) -> Vec<String> {
    let ended: Vec<(usize, &Plist<'_>)> = alternatives
        .iter()
        .enumerate()
        .filter(|(_, it)| it.get("error").is_none())
        .collect();
    let told = |it: &Plist<'_>| match it.texts("values").join(", ") {
        values if values.is_empty() => "no values".to_owned(),
        values => values,
    };
    match ended.as_slice() {
        [] => Vec::new(),
        [(_, only)] => vec![format!("=> {}", told(only))],
        [(_, first), ..] if ended.iter().all(|(_, it)| it.flag("same")) => {
            vec![format!(
                "All have the same values (equalp): {}",
                told(first)
            )]
        }
        _ => {
            let mut lines = vec!["THE VALUES DIFFER (not equalp):".to_owned()];
            lines.extend(
                ended
                    .iter()
                    .map(|(index, it)| format!("  {} => {}", index + 1, told(it))),
            );
            lines
        }
    }
}

fn profile_form() -> Tool {
    measuring(
        "profile_form",
        "Profile forms statistically (SBCL): run them again and again for some seconds and list in which functions their CPU time was spent. After a timeout it lists what was seen until then.",
        evaluated_parameter(),
        "profile-form",
        render_profile,
    )
}

fn render_profile(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    match reply {
        ImageReply::Cancelled(report) => {
            let Err(mut failure) = outcome::returned(reply) else {
                return Ok(String::new());
            };
            let table = profile(Plist::new(&report.value));
            failure.message = format!("{}\n{}", failure.message, table.join("\n"));
            Err(failure)
        }
        _ => {
            let data = outcome::returned(reply)?;
            let mut lines = profile(data);
            lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
            Ok(lines.join("\n"))
        }
    }
}

/// The table of the functions in DATA.
fn profile(data: Plist<'_>) -> Vec<String> {
    let number = |name: &str| data.integer(name).unwrap_or_default();
    let (samples, runs) = (number("samples"), number("runs"));
    let time = |name: &str| duration(number(name) * 1_000_000_000);
    let each = match runs {
        0 => "a run that did not end".to_owned(),
        runs => format!(
            "{} of {}",
            counted(runs, "run"),
            duration(number("milliseconds") * 1_000_000_000 / runs)
        ),
    };
    let allocated = data.integer("bytes").map_or(String::new(), |bytes| {
        format!(", {} allocated by each", size(bytes))
    });
    let mut lines = vec![format!(
        "{} in {} of CPU time, {} in all: {each}{allocated}.",
        counted(samples, "sample"),
        time("cpu"),
        time("milliseconds")
    )];
    // One may be of the end of the measurement.
    if samples < 2 {
        lines.push("It used too little CPU time to say where: it may wait, or be done at once. call_tool image_status with part threads says where threads wait.".to_owned());
        return lines;
    }
    lines.push(" self  total  function".to_owned());
    let share = |count: i64| format!("{:>3.0} %", count as f64 * 100.0 / samples as f64);
    lines.extend(data.plists("rows").map(|row| {
        let place = row
            .text("where")
            .map_or(String::new(), |place| format!("  {place}"));
        format!(
            "{}  {}  {}{place}",
            share(row.integer("self").unwrap_or_default()),
            share(row.integer("total").unwrap_or_default()),
            row.text("name").unwrap_or("?")
        )
    }));
    lines
}

/// PICOSECONDS with three digits and the unit that fits.
fn duration(picoseconds: i64) -> String {
    scaled(
        picoseconds as f64 / 1000.0,
        1000.0,
        &["ns", "µs", "ms", "s"],
    )
}

fn size(bytes: i64) -> String {
    scaled(bytes as f64, 1024.0, &["bytes", "KB", "MB", "GB"])
}

fn scaled(mut amount: f64, step: f64, units: &[&str]) -> String {
    let mut units = units.iter().copied();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if amount < step {
            break;
        }
        amount /= step;
        unit = next;
    }
    let digits = match amount {
        _ if unit == "bytes" || amount >= 100.0 => 0,
        _ if amount >= 10.0 => 1,
        _ => 2,
    };
    format!("{amount:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_a_unit() {
        assert_eq!(duration(1_250), "1.25 ns");
        assert_eq!(duration(12_345_678), "12.3 µs");
        assert_eq!(duration(3_000_000_000_000), "3.00 s");
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(16 * 1024), "16.0 KB");
    }
}
