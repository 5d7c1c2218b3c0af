// SPDX-License-Identifier: GPL-3.0-or-later
//! The ways to a host: proxies of each kind, certificates of each kind, and what is said where a way ends.

use std::time::Duration;

use agent_q_core::provider::retry::RetryPolicy;
use agent_q_core::provider::route::Proxy;
use agent_q_core::provider::{
    FailureKind, Http, HttpSettings, ProviderError, ProviderSettings, Route,
};
use serde_json::json;

use crate::fault_server::{Deed, FaultServer};
use crate::way_servers::{TestProxy, answer, certificate, free_port, tls_server};

use super::http::{ask_with, client, request, retries, settings, start, stream};

fn over(base_url: &str, proxy: &str) -> ProviderSettings {
    ProviderSettings {
        route: Route {
            proxy: Some(Proxy {
                url: proxy.into(),
                set_by: "https_proxy".into(),
                except: Some("no.example, 10.0.0.0/8".into()),
            }),
            ca_file: Some(certificate("self-signed.pem")),
            ..Route::default()
        },
        ..settings(base_url.into())
    }
}

/// The failure of a request with SETTINGS, which was tried so often.
async fn refused(settings: &ProviderSettings) -> (ProviderError, usize) {
    let (result, events) = ask_with(settings).await;
    (result.expect_err("a failure"), 1 + retries(&events))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_reached_over_proxies_of_each_kind() {
    let plain = FaultServer::start(vec![vec![Deed::Send(answer(""))]])
        .address
        .port();
    let tls = tls_server("self-signed.pem");
    for (url, target) in [
        ("http://model.example/v1", plain),
        ("https://model.example/v1", tls),
    ] {
        let guarded = TestProxy::http(target, true);
        let open = TestProxy::http(target, false);
        let socks = TestProxy::socks(target, None);
        let known = TestProxy::socks(target, Some(b"me:a@b"));
        for (proxy, text) in [
            (
                &guarded,
                format!("http://me:a%40b@127.0.0.1:{}", guarded.port),
            ),
            (&guarded, format!("me:a%40b@127.0.0.1:{}/", guarded.port)),
            (&open, format!("http://localhost:{}", open.port)),
            (&socks, format!("socks5h://127.0.0.1:{}", socks.port)),
            (&socks, format!("socks://127.0.0.1:{}/", socks.port)),
            (
                &known,
                format!("socks5h://me:a%40b@127.0.0.1:{}", known.port),
            ),
        ] {
            let before = proxy.asked().len();
            let reply = ask_with(&over(url, &text)).await.0;
            assert_eq!(reply.expect(&text).text(), "ok", "{text}");
            let asked = proxy.asked();
            assert_eq!(asked.len(), before + 1, "{text}");
            assert!(asked[before].contains("model.example"), "{asked:?}");
        }
    }
    let socks = TestProxy::socks(plain, None);
    let settings = over(
        "http://192.0.2.7/v1",
        &format!("socks5://127.0.0.1:{}", socks.port),
    );
    assert_eq!(ask_with(&settings).await.0.expect("a reply").text(), "ok");
    assert_eq!(socks.asked(), ["an address"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_fails_is_named_with_who_set_it() {
    let dead = free_port();
    let guarded = TestProxy::http(dead, true).port;
    let known = TestProxy::socks(dead, Some(b"me:a@b")).port;
    let fault = |answer: &str| {
        FaultServer::start(vec![vec![Deed::Send(answer.into())]])
            .address
            .port()
    };
    let forbids = fault("HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n");
    let silent = fault("");
    let at = |scheme: &str, port: u16| format!("{scheme}://127.0.0.1:{port}");
    for (proxy, said, times) in [
        (
            at("http", dead),
            "Nothing listens at the proxy 127.0.0.1:",
            3,
        ),
        (
            at("socks5h", dead),
            "Nothing listens at the proxy 127.0.0.1:",
            3,
        ),
        (
            "http://no-such-proxy.invalid:3128".to_owned(),
            "proxy no-such-proxy.invalid:3128",
            3,
        ),
        (
            "socks5h://no-such-proxy.invalid".to_owned(),
            "proxy no-such-proxy.invalid:1080",
            3,
        ),
        (
            at("http", guarded),
            "wants a user name and a password. Write them into its URL: http://USER",
            1,
        ),
        (
            format!("http://me:wrong-password@127.0.0.1:{guarded}"),
            "refuses the user name or the password",
            1,
        ),
        (at("socks5h", known), "wants a user name and a password", 1),
        (
            format!("socks5h://me:wrong-password@127.0.0.1:{known}"),
            "refuses the user name",
            1,
        ),
        (
            at("http", silent),
            "closed the connection without an answer",
            3,
        ),
        (
            at("https", forbids),
            "does not speak TLS. Write http:// in its URL",
            1,
        ),
    ] {
        for url in ["http://model.example/v1", "https://model.example/v1"] {
            let (error, tries) = refused(&over(url, &proxy)).await;
            let text = error.to_string();
            assert!(text.contains(said), "{proxy}: {text}");
            assert!(
                text.contains("proxy ") && text.contains("(set by https_proxy)"),
                "{text}"
            );
            assert!(!text.contains("wrong-password"), "{text}");
            assert_eq!(tries, times, "{text}");
        }
    }
    let (error, _) = refused(&over("https://model.example/v1", &at("http", forbids))).await;
    let text = error.to_string();
    assert!(
        text.contains("makes no connection to model.example:443"),
        "{text}"
    );
    for wrong in ["ftp://proxy.example", "http://", "http://me:secret@pro xy"] {
        let (error, _) = refused(&over("https://model.example/v1", wrong)).await;
        assert_eq!(error.kind, FailureKind::Settings, "{error}");
        assert!(error.to_string().contains("https_proxy"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn this_machine_is_behind_a_proxy_only_if_its_provider_says_so() {
    let server = start(json!({"turns": [{"steps": [{"text": "ok"}]}], "repeat_last": true}));
    let proxy = format!("http://127.0.0.1:{}", free_port());
    let mut settings = over(&server.base_url(), &proxy);
    assert_eq!(ask_with(&settings).await.0.expect("a reply").text(), "ok");
    settings.route.proxy.as_mut().expect("a proxy").except = None;
    let (error, _) = refused(&settings).await;
    assert!(
        error.to_string().contains("Nothing listens at the proxy"),
        "{error}"
    );
}

#[test]
fn hosts_are_excepted_as_curl_does() {
    let way = |host: &str, except: &str| {
        let url = reqwest::Url::parse(&format!("https://{host}/v1")).expect("a URL");
        let mut route = over("", "http://proxy.example:3128").route;
        route.proxy.as_mut().expect("a proxy").except = Some(except.into());
        route.way(&url).expect("a way").via.is_some()
    };
    for (host, except, goes_over_it) in [
        ("api.example.com", "", true),
        ("api.example.com", "example.com", false),
        ("api.example.com", " .example.com ,other", false),
        ("notexample.com", "example.com", true),
        ("api.example.com", "*", false),
        ("10.1.2.3", "10.0.0.0/8", false),
        ("11.1.2.3", "10.0.0.0/8", true),
        ("[fd00::7]", "fd00::/8", false),
        ("127.0.0.1:8443", "", false),
        ("[::1]", "", false),
        ("model.localhost", "", false),
    ] {
        assert_eq!(way(host, except), goes_over_it, "{host} {except:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_counts_by_who_signed_it_its_name_and_its_dates() {
    const UNTRUSTED: Option<&str> =
        Some("no authority that is trusted here has signed its certificate");
    for (server, authorities, own, words) in [
        ("of-company.pem", "company.pem", None, None),
        ("of-company.pem", "", Some("company.pem"), None),
        ("of-company.pem", "", Some("of-company.pem"), None),
        ("of-company.pem", "", None, UNTRUSTED),
        ("of-company.pem", "of-company.pem", None, UNTRUSTED),
        ("self-signed.pem", "", Some("self-signed.pem"), None),
        (
            "self-signed-leaf.pem",
            "",
            Some("self-signed-leaf.pem"),
            None,
        ),
        ("self-signed.pem", "self-signed.pem", None, UNTRUSTED),
        (
            "self-signed-leaf.pem",
            "self-signed-leaf.pem",
            None,
            UNTRUSTED,
        ),
        (
            "self-signed.pem",
            "",
            Some("self-signed-leaf.pem"),
            UNTRUSTED,
        ),
        (
            "self-signed-leaf.pem",
            "",
            Some("self-signed.pem"),
            UNTRUSTED,
        ),
        ("of-leaf.pem", "self-signed-leaf.pem", None, UNTRUSTED),
        ("of-leaf.pem", "", Some("self-signed-leaf.pem"), UNTRUSTED),
        (
            "expired.pem",
            "",
            Some("expired.pem"),
            Some("ended on 2021-01-01"),
        ),
        (
            "expired-leaf.pem",
            "",
            Some("expired-leaf.pem"),
            Some("ended on 2021-01-01"),
        ),
        (
            "other-name.pem",
            "",
            Some("other-name.pem"),
            Some("is not for localhost, but for "),
        ),
    ] {
        let url = format!("https://localhost:{}/v1", tls_server(server));
        let mut settings = settings(url);
        settings.route.authorities = match authorities {
            "" => Vec::new(),
            name => vec![certificate(name), "/no/such/file.pem".into()],
        };
        settings.route.ca_file = own.map(certificate);
        let (result, events) = ask_with(&settings).await;
        let told = (server, authorities, own);
        match words {
            None => assert_eq!(result.expect(server).text(), "ok", "{told:?}"),
            Some(words) => {
                let error = result.expect_err(server);
                assert!(error.to_string().contains(words), "{told:?}: {error}");
                assert_eq!(retries(&events), 0);
                let says_what_to_do = error.to_string().contains(":ca-file");
                assert_eq!(says_what_to_do, Some(words) == UNTRUSTED, "{error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_certificates_is_read_again_when_it_has_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("own.pem");
    let mut settings = settings(format!(
        "https://localhost:{}/v1",
        tls_server("self-signed.pem")
    ));
    settings.route.ca_file = Some(file.clone());
    let client = client();
    let ask = async || stream(&client, &settings, &request(), &mut |_| {}).await;
    let error = ask().await.expect_err("no file");
    assert_eq!(error.kind, FailureKind::Settings);
    assert!(
        error.to_string().contains("own.pem can't be used"),
        "{error}"
    );
    std::fs::write(&file, "mine").expect("a file");
    let error = ask().await.expect_err("no certificate");
    assert!(
        error.to_string().contains("there is no certificate in it"),
        "{error}"
    );
    std::fs::copy(certificate("self-signed.pem"), &file).expect("a file");
    assert_eq!(ask().await.expect("a reply").text(), "ok");
}

/// A client that waits only a moment for a connection.
fn hasty() -> Http {
    Http::new(HttpSettings {
        connect_timeout: Duration::from_millis(300),
        retry: RetryPolicy {
            base_delay: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        ..HttpSettings::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheme_that_the_server_does_not_speak_is_told_as_such() {
    let tls = tls_server("self-signed.pem");
    let plain = FaultServer::start(vec![vec![Deed::Send(b"HTTP/1.1 400 What?\r\n\r\n".into())]]);
    let hangs_up = FaultServer::start(vec![vec![]]);
    let waits = FaultServer::start(vec![vec![Deed::Stall]]);
    for (scheme, port, words) in [
        (
            "https",
            plain.address.port(),
            "does not speak TLS. If it speaks plain HTTP, write http://",
        ),
        (
            "https",
            hangs_up.address.port(),
            "does not speak TLS. If it",
        ),
        (
            "https",
            waits.address.port(),
            "accepted the connection but sent no TLS answer within 0.3 s. If it",
        ),
        (
            "http",
            tls,
            "does not speak HTTP. If it speaks TLS, write https://",
        ),
    ] {
        let settings = settings(format!("{scheme}://localhost:{port}/v1"));
        let mut events = Vec::new();
        let mut sink = |event| events.push(event);
        let reply = stream(&hasty(), &settings, &request(), &mut sink).await;
        let error = reply.expect_err("a failure");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(retries(&events), 0, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_curl_takes_are_taken() {
    for headers in [
        (0..300)
            .map(|number| format!("x-{number}: y\r\n"))
            .collect(),
        "x-folded: one\r\n  two\r\n\tthree\r\n".to_owned(),
        "x-blank : y\r\n".to_owned(),
        "x blank: y\r\n".to_owned(),
        "a line\r\n".to_owned(),
    ] {
        let server = FaultServer::start(vec![vec![Deed::Send(answer(&headers))]]);
        let settings = settings(format!("http://{}/v1", server.address));
        let reply = ask_with(&settings).await.0;
        assert_eq!(reply.expect(&headers).text(), "ok");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_lists_no_models_says_how_far_it_was() {
    let key = settings(String::new()).key.expect("a key");
    let refuses = format!(
        "HTTP/1.1 401 No\r\nconnection: close\r\n\r\n{{\"error\": \"No key {}\"}}",
        key.reveal()
    );
    let fault = |answer: &str| {
        let server = FaultServer::start(vec![vec![Deed::Send(answer.into())]]);
        format!("http://{}/v1", server.address)
    };
    let dead = free_port();
    let https = |port: u16| format!("https://localhost:{port}/v1");
    for (settings, stage, words) in [
        (
            settings("nowhere".into()),
            "the settings",
            "not a valid base URL",
        ),
        (
            settings(format!("http://127.0.0.1:{dead}/v1")),
            "the connection",
            "Nothing listens",
        ),
        (
            settings(https(tls_server("self-signed.pem"))),
            "TLS",
            ":ca-file",
        ),
        (settings(fault(&refuses)), "HTTP (401)", "rejected the key"),
        (
            settings(fault("HTTP/1.1 200 Yes\r\ncontent-length: 2\r\n\r\n{}")),
            "HTTP (200)",
            "not with a list",
        ),
        (
            over("http://model.example/v1", &format!("127.0.0.1:{dead}")),
            "the proxy",
            "set by",
        ),
        (
            over(
                "http://model.example/v1",
                &format!("127.0.0.1:{}", TestProxy::http(dead, true).port),
            ),
            "the proxy",
            "a password",
        ),
    ] {
        let unlisted = client().models(&settings).await.expect_err(stage);
        assert_eq!(unlisted.stage, stage);
        assert!(unlisted.why.contains(words), "{}", unlisted.why);
        assert!(!unlisted.why.contains(key.reveal()), "{}", unlisted.why);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_is_told_whatever_its_status() {
    for (status, body, told) in [
        ("401 No", "{}", 401),
        // As xAI and Google say it.
        (
            "400 Bad Request",
            r#"{"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***zz."}"#,
            401,
        ),
        (
            "400 Bad Request",
            r#"{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}"#,
            401,
        ),
        ("429 Slow down", "{}", 429),
        ("200 Yes", "{}", 200),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n{body}");
        let server = FaultServer::start(vec![vec![Deed::Send(answer.into())]]);
        let settings = settings(format!("http://{}/v1", server.address));
        let unlisted = client().models(&settings).await.expect_err(status);
        assert_eq!(unlisted.status, Some(told), "{status}");
    }
}
