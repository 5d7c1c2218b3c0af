// SPDX-License-Identifier: GPL-3.0-or-later
//! The retry policy: what is tried again, and after how long; and what is said where it is not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_q_core::provider::retry::{RetryAdvice, RetryPolicy, advice};
use serde_json::json;

use super::http::{ask, start};

/// Sun, 06 Nov 1994 08:49:37 GMT.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn advice_for(status: u16, code: &str, headers: &[(&str, &'static str)]) -> RetryAdvice {
    let header = |name: &str| {
        let found = headers.iter().find(|(header, _)| *header == name);
        found.map(|(_, value)| *value)
    };
    advice(status, &[code.to_owned()], header, now())
}

#[test]
fn passing_errors_are_tried_again_and_others_are_not() {
    for status in [408, 409, 429, 500, 502, 503, 529] {
        assert_eq!(
            advice_for(status, "", &[]),
            RetryAdvice::Backoff,
            "{status}"
        );
    }
    for status in [301, 400, 401, 402, 403, 404, 413, 422] {
        assert_eq!(advice_for(status, "", &[]), RetryAdvice::Never, "{status}");
    }
}

#[test]
fn a_spent_quota_is_final() {
    assert_eq!(
        advice_for(429, "insufficient_quota", &[]),
        RetryAdvice::Never
    );
    let retry_after = [("retry-after", "1")];
    assert_eq!(
        advice_for(429, "insufficient_quota", &retry_after),
        RetryAdvice::Never
    );
}

#[test]
fn the_server_may_say_whether() {
    assert_eq!(
        advice_for(500, "", &[("x-should-retry", "false")]),
        RetryAdvice::Never
    );
    assert_eq!(
        advice_for(418, "", &[("x-should-retry", "true")]),
        RetryAdvice::Backoff
    );
    for refused in [400, 401, 402, 403, 404, 413, 422] {
        assert_eq!(
            advice_for(refused, "", &[("x-should-retry", "true")]),
            RetryAdvice::Never,
            "{refused}: no wait mends the request, the key or the account"
        );
    }
}

#[test]
fn the_server_may_say_when() {
    let after = |seconds| RetryAdvice::After(Duration::from_secs_f64(seconds));
    let wait = |name, value| advice_for(429, "", &[(name, value)]);
    assert_eq!(wait("retry-after-ms", "250"), after(0.25));
    assert_eq!(wait("retry-after", "1.5"), after(1.5));
    assert_eq!(wait("retry-after", "120"), after(120.0));
    assert_eq!(
        wait("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
        after(30.0)
    );
    let later = |seconds| RetryAdvice::Later(Duration::from_secs(seconds));
    assert_eq!(
        wait("retry-after", "Mon, 07 Nov 1994 08:49:37 GMT"),
        later(24 * 3600)
    );
    assert_eq!(wait("retry-after", "121"), later(121));
    assert_eq!(wait("retry-after", "1e300"), RetryAdvice::Never);
    for nonsense in [
        "-1",
        "0",
        "NaN",
        "soon",
        "",
        "Sun, 06 Nov 99999999999999 08:50:07 GMT",
        "Sat, 05 Nov 1994 08:50:07 GMT",
    ] {
        assert_eq!(
            wait("retry-after", nonsense),
            RetryAdvice::Backoff,
            "{nonsense}"
        );
    }
}

#[test]
fn both_headers_prefer_the_finer_one() {
    let both = [("retry-after", "60"), ("retry-after-ms", "10")];
    let wait = Duration::from_millis(10);
    assert_eq!(advice_for(429, "", &both), RetryAdvice::After(wait));
}

#[test]
fn waits_double_up_to_a_limit_and_spread_downwards() {
    let policy = RetryPolicy {
        retries: 40,
        base_delay: Duration::from_millis(500),
        longest_delay: Duration::from_secs(8),
    };
    let seconds = |attempt, jitter| {
        let delay = policy.delay(attempt, RetryAdvice::Backoff, jitter);
        delay.expect("a retry").as_secs_f64()
    };
    assert_eq!(
        [1, 2, 3, 5, 6, 40].map(|attempt| seconds(attempt, 0.0)),
        [0.5, 1.0, 2.0, 8.0, 8.0, 8.0]
    );
    assert!((seconds(1, 1.0) - 0.375).abs() < 1e-9);
}

#[test]
fn there_are_two_retries() {
    let policy = RetryPolicy::default();
    let tried = |attempt| policy.delay(attempt, RetryAdvice::Backoff, 0.5).is_some();
    assert_eq!([tried(1), tried(2), tried(3)], [true, true, false]);
    assert_eq!(policy.delay(1, RetryAdvice::Never, 0.5), None);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_told() {
    for (status, seconds, told) in [
        (
            429,
            "300",
            "rate limit or quota reached (429). Try again in 5 minutes.",
        ),
        (
            429,
            "7201",
            "rate limit or quota reached (429). Try again in 3 hours.",
        ),
        (503, "121", "server error (503). Try again in 3 minutes."),
    ] {
        let turn = json!({"status": status, "headers": {"retry-after": seconds},
            "body": {"error": {"message": "slowly"}}});
        let server = start(json!({"turns": [turn], "repeat_last": true}));
        let error = ask(&server).await.0.expect_err("a failure").to_string();
        assert_eq!(server.requests().len(), 1);
        assert!(error.contains(told), "{error}");
    }
}
