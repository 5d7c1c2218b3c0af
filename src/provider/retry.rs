// SPDX-License-Identifier: GPL-3.0-or-later
//! When a request is sent again, and after how long. Pure; `http` sleeps and sends.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error_report::ErrorReport;
use super::error_words::RefusalReason;

/// A server that asks for a longer wait than this gets no second request.
const LONGEST_REQUESTED_WAIT: Duration = Duration::from_secs(120);

/// Ignore longer waits as mistakes: a month.
const LONGEST_SENSIBLE_WAIT: Duration = Duration::from_secs(31 * 24 * 3600);

/// How much longer than otherwise the wait is where the server has too much to do.
const BUSY_FACTOR: u32 = 6;

/// Codes of errors that no wait mends, whatever the status.
const FINAL_CODES: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "usage_not_included",
];

/// Codes of errors that a wait may mend; they also come in the middle of a stream.
const PASSING_CODES: &[&str] = &[
    "overloaded_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "server_error",
    "internal_server_error",
    "api_error",
    "timeout_error",
];

/// Refusals of the request itself, of the key or of the account: no wait mends them, whatever else the
/// server says.
const FINAL_STATUSES: &[u16] = &[400, 401, 402, 403, 404, 405, 413, 414, 415, 422];

/// How often and how fast to try again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// How many times a request is sent again.
    pub retries: u32,
    /// The wait before the first retry; it doubles each time.
    pub base_delay: Duration,
    /// The longest wait that we choose ourselves.
    pub longest_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 2,
            base_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(8),
        }
    }
}

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// It can't.
    Never,
    /// It may, after a wait of our choice.
    Backoff,
    /// It may, after a longer wait: the server has too much to do.
    Busy,
    /// It may, after the wait that the server asks for.
    After(Duration),
    /// It may, after the wait that the server asks for, which is too long for a turn.
    Later(Duration),
}

impl RetryPolicy {
    /// The wait before retry number `attempt` (from 1); none when the request has failed for good.
    /// `jitter`, in 0..1, spreads Emacsen that failed together.
    #[must_use]
    pub fn delay(&self, attempt: u32, advice: RetryAdvice, jitter: f64) -> Option<Duration> {
        if attempt == 0 || attempt > self.retries {
            return None;
        }
        match advice {
            RetryAdvice::Never | RetryAdvice::Later(_) => None,
            RetryAdvice::After(wait) => Some(wait),
            RetryAdvice::Backoff => Some(self.doubled(self.base_delay, attempt, jitter)),
            RetryAdvice::Busy => {
                let base = self.base_delay.saturating_mul(BUSY_FACTOR);
                Some(self.doubled(base, attempt, jitter))
            }
        }
    }

    /// The wait before retry number ATTEMPT, where the first is BASE.
    fn doubled(&self, base: Duration, attempt: u32, jitter: f64) -> Duration {
        let doubled = base.saturating_mul(1 << (attempt - 1).min(16));
        let spread = 1.0 - 0.25 * jitter.clamp(0.0, 1.0);
        doubled.min(self.longest_delay).mul_f64(spread)
    }
}

/// What a refused request's status and headers say, and REPORT, which its body gave. `header` looks a
/// header up by its lower-case name.
#[must_use]
pub fn advice<'h>(
    status: u16,
    report: &ErrorReport,
    header: impl Fn(&str) -> Option<&'h str>,
    now: SystemTime,
) -> RetryAdvice {
    let passing = match header("x-should-retry") {
        Some("true") => true,
        Some("false") => false,
        _ => is_passing(status),
    };
    if !passing || FINAL_STATUSES.contains(&status) {
        return RetryAdvice::Never;
    }
    let wait = requested_wait(header, now).or_else(|| report.wait(now));
    passing_advice(Some(status), report, wait)
}

/// What an error inside a stream says; it has no status of its own, only words for one.
#[must_use]
pub fn stream_advice(report: &ErrorReport, now: SystemTime) -> RetryAdvice {
    let passing = any_of(&report.codes, PASSING_CODES)
        || report.limits_rate()
        || report.is_busy()
        || report.status.is_some_and(is_passing);
    match passing {
        true => passing_advice(report.status, report, report.wait(now)),
        false => RetryAdvice::Never,
    }
}

fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 409 | 429) || status >= 500
}

/// What to do about an error that a WAIT may mend, unless REPORT knows better.
fn passing_advice(
    status: Option<u16>,
    report: &ErrorReport,
    wait: Option<Duration>,
) -> RetryAdvice {
    let reason = report.reason(status);
    if any_of(&report.codes, FINAL_CODES)
        || !matches!(reason, RefusalReason::Unknown | RefusalReason::Day)
    {
        return RetryAdvice::Never;
    }
    match wait {
        Some(wait) if wait > LONGEST_SENSIBLE_WAIT => RetryAdvice::Never,
        Some(wait) if wait > LONGEST_REQUESTED_WAIT => RetryAdvice::Later(wait),
        // The wait that hosts name beside a day's quota is that of a shorter one.
        _ if reason == RefusalReason::Day => RetryAdvice::Never,
        Some(wait) => RetryAdvice::After(wait),
        None if matches!(status, Some(429 | 529)) || report.limits_rate() || report.is_busy() => {
            RetryAdvice::Busy
        }
        None => RetryAdvice::Backoff,
    }
}

fn any_of(codes: &[String], known: &[&str]) -> bool {
    codes.iter().any(|code| known.contains(&code.as_str()))
}

fn requested_wait<'h>(
    header: impl Fn(&str) -> Option<&'h str>,
    now: SystemTime,
) -> Option<Duration> {
    let number = |name| header(name).and_then(|value| value.trim().parse::<f64>().ok());
    let seconds = number("retry-after-ms")
        .map(|milliseconds| milliseconds / 1000.0)
        .or_else(|| number("retry-after"));
    match seconds {
        Some(seconds) if seconds > 0.0 => Duration::try_from_secs_f64(seconds)
            .ok()
            .or(Some(Duration::MAX)),
        Some(_) => None,
        None => http_date(header("retry-after")?)?.duration_since(now).ok(),
    }
}

/// The moment that an HTTP date (`Sun, 06 Nov 1994 08:49:37 GMT`) names.
fn http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_once(',')?.1.split_ascii_whitespace();
    let day: i64 = words.next()?.parse().ok()?;
    let month_name = words.next()?;
    let month = MONTHS.iter().position(|&month| month == month_name)? as i64 + 1;
    let year: i64 = words.next()?.parse().ok()?;
    let mut clock = words.next()?.splitn(3, ':').map(str::parse::<i64>);
    let mut unit = || clock.next()?.ok();
    let (hours, minutes, seconds) = (unit()?, unit()?, unit()?);
    let sane = (1970..=9999).contains(&year)
        && (1..=31).contains(&day)
        && [hours, minutes, seconds]
            .iter()
            .all(|unit| (0..=60).contains(unit));
    if !sane {
        return None;
    }
    let total = days_from_epoch(year, month, day) * 86_400 + hours * 3600 + minutes * 60 + seconds;
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(total).ok()?))
}

/// Days from 1970-01-01 in the Gregorian calendar, counting years from March so that the leap day
/// ends the year.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days_before_month = (153 * month + 2) / 5;
    year * 365 + leap_days + days_before_month + day - 1 - 719_468
}
