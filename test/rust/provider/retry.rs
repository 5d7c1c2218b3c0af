// SPDX-License-Identifier: GPL-3.0-or-later
//! The retry policy: what is tried again, and after how long; and what is said where it is not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_q_core::provider::error_report::ErrorReport;
use agent_q_core::provider::retry::{RetryAdvice, RetryPolicy, advice};
use serde_json::{Value, json};

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
    let body = json!({"error": {"code": code, "message": "So it is."}}).to_string();
    let report = ErrorReport::of_body(body.as_bytes(), None);
    advice(status, &report, header, now())
}

/// What the body of a refusal with STATUS says, without any header.
fn advice_of(status: u16, body: &Value) -> RetryAdvice {
    let report = ErrorReport::of_body(body.to_string().as_bytes(), None);
    advice(status, &report, |_| None, now())
}

#[test]
fn passing_errors_are_tried_again_and_others_are_not() {
    for status in [408, 409, 500, 502, 503] {
        assert_eq!(
            advice_for(status, "", &[]),
            RetryAdvice::Backoff,
            "{status}"
        );
    }
    for (status, code) in [(429, ""), (529, ""), (503, "overloaded_error")] {
        let advice = advice_for(status, code, &[]);
        assert_eq!(advice, RetryAdvice::Busy, "{status}");
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
            RetryAdvice::Busy,
            "{nonsense}"
        );
    }
}

#[test]
fn the_body_may_say_when() {
    let info = |delay| {
        json!({"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]}})
    };
    let words = |words: &str| json!({"error": {"message": words}});
    let after = |seconds| RetryAdvice::After(Duration::from_secs_f64(seconds));
    for (body, expected) in [
        (info("6s"), after(6.0)),
        (json!([info("6.5s")]), after(6.5)),
        (
            words("Rate limit reached. Please try again in 4.2s. See our page."),
            after(4.2),
        ),
        (words("Please retry after 20 seconds."), after(20.0)),
        (words("Slow down: try again in 1m30s"), after(90.0)),
        (json!({"retry_after": 3}), after(3.0)),
        (
            json!({"error": {"metadata": {"headers": {"X-RateLimit-Reset": "784111787000"}}}}),
            after(10.0),
        ),
        (
            json!({"error": {"metadata": {"raw": "{\"error\":\"Slow down, retry in 2s\"}"}}}),
            after(2.0),
        ),
        (
            words("Try again in 3 hours."),
            RetryAdvice::Later(Duration::from_secs(3 * 3600)),
        ),
        (words("Try again in a while."), RetryAdvice::Busy),
    ] {
        assert_eq!(advice_of(429, &body), expected, "{body}");
    }
}

#[test]
fn the_quota_of_a_day_is_not_asked_for_again() {
    let quota = |delay| {
        json!({"error": {"message": "You exceeded your quota.", "details": [
            {"violations": [{"quotaId": "RequestsPerDayPerProject-Free"}]}, {"retryDelay": delay}]}})
    };
    let hours = RetryAdvice::Later(Duration::from_secs(40_611));
    assert_eq!(advice_of(429, &quota("40611s")), hours);
    // Beside a day's quota this is the wait of the minute's.
    assert_eq!(advice_of(429, &quota("12s")), RetryAdvice::Never);
    let words = json!({"error": {"message": "Limit of free requests per day reached."}});
    assert_eq!(advice_of(429, &words), RetryAdvice::Never);
}

#[test]
fn what_no_wait_mends_is_not_sent_again() {
    for (status, words) in [
        (
            500,
            "The model requires more system memory (9.9 GiB) than is available (7.1 GiB)",
        ),
        (500, "x.ContextWindowExceededError: it is full"),
        (
            429,
            "Request too large: the limit is 6000 tokens per minute, requested 9000",
        ),
    ] {
        let body = json!({"error": {"message": words}});
        assert_eq!(advice_of(status, &body), RetryAdvice::Never, "{words}");
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
    let busy = |attempt| policy.delay(attempt, RetryAdvice::Busy, 0.0);
    assert_eq!(
        [1, 2, 3].map(|attempt| busy(attempt).expect("a retry").as_secs()),
        [3, 6, 8]
    );
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
