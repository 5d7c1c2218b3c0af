// SPDX-License-Identifier: GPL-3.0-or-later
//! Pages that are fetched for calls, from real servers, which lead elsewhere, flood, drip and lie; what the
//! user is asked about their addresses, and what rules cover.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_q_core::builtin::web;
use agent_q_core::call::batch::PlanMode;
use agent_q_core::rules::{ArgumentPattern, TextPattern};
use agent_q_core::tool::work::PastResults;
use agent_q_core::trust::Provenance;
use tempfile::TempDir;

use crate::executor_bench::*;
use crate::way_servers::{TestProxy, certificate, free_port, listening, tls_server};

struct Ground {
    bench: Bench,
    /// What Emacs says of the way to a page.
    route: Value,
}

impl Ground {
    fn new() -> Self {
        let bench = bench(Approval::Ask);
        for tool in web::tools() {
            bench.batch.tools.register(tool);
        }
        Self {
            bench,
            route: json!({}),
        }
    }

    /// One whose user says yes to each call, and whose names all mean the server at PORT.
    fn by_proxy(port: u16) -> (Self, TestProxy) {
        let proxy = TestProxy::http(port, false);
        let mut ground = Self::new();
        let url = format!("http://127.0.0.1:{}", proxy.port);
        ground.route = json!({"proxy": {"url": url, "set_by": "http_proxy", "except": ""}});
        (ground, proxy)
    }

    fn emacs_is_asked(&self) {
        let mut replies = self.bench.emacs.replies.lock().unwrap();
        replies.clear();
        for _ in 0..10 {
            replies.push_back(EmacsReply::done(self.route.to_string()));
        }
    }

    /// The result of a call with ARGUMENTS, to which the user says yes where they are asked.
    async fn fetch(&self, arguments: Value) -> CallResult {
        self.emacs_is_asked();
        let calls = [call("c", web::NAME, arguments)];
        let run = self.bench.run(&calls);
        let approve = async {
            let key = self.bench.asked().await;
            let approvals = &self.bench.executor.approvals;
            approvals.decide(key, Decision::Approved);
            std::future::pending::<()>().await;
        };
        let result = tokio::select! {
            mut results = run => results.pop().unwrap(),
            () = approve => unreachable!(),
        };
        self.bench.emacs.events.lock().unwrap().clear();
        result
    }

    async fn at(&self, url: &str) -> CallResult {
        self.fetch(json!({"url": url})).await
    }

    /// The reason for which the user is asked about ARGUMENTS, and the rules that are offered in the chat.
    async fn asked(&self, arguments: Value) -> (String, Vec<(Width, Rule)>) {
        self.bench.asked_about(web::NAME, arguments, "chat").await
    }
}

/// A server that sends ANSWER to each request, whatever that is, and then is silent until the client goes.
fn server(answer: impl Into<Vec<u8>>) -> u16 {
    let answer = answer.into();
    serving(move |_, stream| stream.write_all(&answer))
}

/// A server that ANSWERS each request, whose head it is told.
fn serving(
    answers: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> u16 {
    listening(move |mut stream| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        answers(&String::from_utf8_lossy(&head), &mut stream)
    })
}

/// An answer with HEADERS and BODY.
fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn page(body: &str) -> String {
    answer("200 OK", "content-type: text/html\r\n", body)
}

fn leading(to: &str) -> String {
    answer("302 Found", &format!("location: {to}\r\n"), "")
}

fn here(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

#[tokio::test]
async fn a_page_is_text_from_elsewhere_and_nothing_but_the_address_is_sent() {
    let (seen, heads) = std::sync::mpsc::channel();
    let port = serving(move |head, stream| {
        seen.send(head.to_owned()).unwrap();
        let page = "<title>T</title><h1>One</h1><script>x</script><p>two <a href=y.html>three</a>";
        let answered = answer(
            "200 OK",
            "content-type: text/html\r\nset-cookie: a=b\r\n",
            page,
        );
        stream.write_all(answered.as_bytes())
    });
    let ground = Ground::new();
    let url = format!("http://127.0.0.1:{port}/a/b?c=d#e");
    let done = ground.at(&url).await;
    let told = format!(
        "Title: T\n\n# One\n\ntwo three[1]\n\nLinks, on http://127.0.0.1:{port} unless they say more:\n[1] /a/y.html\n(The page has no part #e, so this is its beginning.)"
    );
    assert_eq!(
        (done.outcome, done.content.as_str()),
        (CallOutcome::Succeeded, told.as_str())
    );
    let source = done.source.unwrap();
    assert_eq!(source.provenance, Provenance::Foreign);
    assert_eq!(source.what, format!("page {url}"));
    assert_eq!(ground.bench.batch.place.provenance(), Provenance::Foreign);
    let again = ground.at(&url).await;
    assert_eq!(again.outcome, CallOutcome::Succeeded);
    for head in heads.try_iter().take(2) {
        let mut lines: Vec<&str> = head.trim_end().split("\r\n").collect();
        assert_eq!(lines.remove(0), "GET /a/b?c=d HTTP/1.1");
        let mut names: Vec<&str> = lines
            .iter()
            .filter_map(|it| it.split_once(": "))
            .map(|it| it.0)
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["accept", "accept-encoding", "host", "user-agent"],
            "{head}"
        );
        assert!(head.contains("accept-encoding: identity\r\n"), "{head}");
    }
}

#[tokio::test]
async fn what_servers_send_is_told_or_refused_in_words() {
    let junk = "x".repeat(100);
    for (sent, url, told) in [
        (page("<p>a\u{200b}b"), "", "a\\u{200b}b"),
        (
            page("<script>x</script>"),
            "",
            "(The page has no text; it may be made by scripts, which don't run here.)",
        ),
        (answer("200 OK", "", "{\"a\": 1}\n"), "", "{\"a\": 1}"),
        (
            answer("200 OK", "content-type: text/x-lisp\r\n", "<p>(a)"),
            "",
            "<p>(a)",
        ),
        (
            answer(
                "404 Not Found",
                "content-type: text/html\r\n",
                "<p>No such page",
            ),
            "x",
            "x answered 404 Not Found.\nNo such page",
        ),
        (
            answer("500 Internal Server Error", "", ""),
            "x",
            "x answered 500 Internal Server Error.",
        ),
        (
            answer("200 OK", "content-type: image/png\r\n", "png"),
            "x",
            "x is a picture (image/png) of 3 bytes, which can't be shown as text.",
        ),
        (
            answer("200 OK", "", "%PDF-1.7"),
            "x",
            "x is a PDF of 8 bytes, which can't be shown as text.",
        ),
        (
            answer("200 OK", "content-type: text/html\r\n", "a\0b"),
            "x",
            "x is a binary file (text/html) of 3 bytes, which can't be shown as text.",
        ),
        (
            answer("200 OK", "content-encoding: gzip\r\n", "\u{1f}\u{8b}"),
            "x",
            "x is sent in the encoding gzip, which was not asked for.",
        ),
        // As servers did before there were heads.
        (
            "<html>junk</html>".to_owned(),
            "x",
            "127.0.0.1 can't be reached: invalid HTTP version parsed.",
        ),
        (
            junk,
            "x",
            "127.0.0.1 can't be reached: invalid HTTP version parsed.",
        ),
        (
            answer("302 Found", "", "<p>where"),
            "x",
            "x answered 302 Found.\n<p>where",
        ),
    ] {
        let port = server(sent);
        let ground = Ground::new();
        let done = ground.at(&format!("{}{url}", here(port))).await;
        let shown = done.content.replace(&here(port), "");
        assert_eq!(shown, told);
        let is_quoted = done.source.is_some();
        assert!(is_quoted, "{shown}");
    }
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nonly this";
    let done = Ground::new().at(&here(server(cut))).await;
    assert_eq!(
        done.content,
        "only this\n(The connection was lost before the page was whole.)"
    );
    let gone = Ground::new().at(&here(free_port())).await;
    assert!(
        gone.content
            .starts_with("127.0.0.1 can't be reached: Connection refused"),
        "{}",
        gone.content
    );
}

#[tokio::test]
async fn a_server_leads_on_within_its_own_place_alone() {
    let other = server(page("<p>other"));
    let elsewhere = here(other);
    let port = serving(move |head, stream| {
        let answered = match head.split(' ').nth(1).unwrap() {
            "/one" => leading("/two#part"),
            "/two" => leading("three"),
            "/three" => page("<p>x<p id=part>found"),
            "/loop" => leading("/loop"),
            "/port" => leading(&elsewhere),
            "/name" => leading(&elsewhere.replace("127.0.0.1", "localhost")),
            "/file" => leading("file:///etc/passwd"),
            "/user" => leading("//me:secret@127.0.0.1/"),
            "/junk" => leading("http://[/"),
            _ => page(""),
        };
        stream.write_all(answered.as_bytes())
    });
    let ground = Ground::new();
    let at = |path: &str| ground.fetch(json!({"url": format!("http://127.0.0.1:{port}/{path}")}));
    let place = format!("http://127.0.0.1:{port}");
    let done = at("one").await;
    assert_eq!(done.content, format!("Now at: {place}/three\n\nfound"));
    for (path, told) in [
        (
            "loop",
            format!("{place}/loop leads from address to address without an end."),
        ),
        (
            "port",
            format!(
                "{place}/port leads to {}, which is another place, so nothing was sent there.",
                here(other)
            ),
        ),
        (
            "name",
            format!("{place}/name leads to http://localhost:{other}/, which is another place"),
        ),
        (
            "file",
            format!("{place}/file leads to an address that can't be fetched. Only pages by http"),
        ),
        (
            "user",
            format!(
                "{place}/user leads to an address that can't be fetched. The address has a user"
            ),
        ),
        (
            "junk",
            format!("{place}/junk leads to an address that can't be fetched. 'http://[/': invalid"),
        ),
    ] {
        let done = at(path).await;
        assert_eq!(done.outcome, CallOutcome::Failed);
        assert!(done.content.starts_with(&told), "{}", done.content);
        assert!(done.source.is_some(), "it is marked as data");
    }
    // The log has each step of the way.
    let log = std::fs::read_to_string(&ground.bench.audit_file).unwrap();
    let ways: Vec<Value> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["arguments"]["went_through"].take()
        })
        .filter(|it| !it.is_null())
        .collect();
    assert_eq!(
        ways[0],
        json!([
            format!("302 {place}/one"),
            format!("302 {place}/two"),
            format!("200 {place}/three")
        ])
    );
    assert_eq!(ways[1].as_array().unwrap().len(), 6);
    assert_eq!(ways[2], json!([format!("302 {place}/port")]));
}

#[tokio::test]
async fn hosts_of_private_networks_are_reached_only_if_the_user_was_told() {
    let port = server(page("<p>private"));
    let ground = Ground::new();
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let url = format!("http://{}:{port}/", machine.trim());
    let done = ground.at(&url).await;
    assert_eq!(done.outcome, CallOutcome::Failed);
    assert!(
        done.content.contains("which the user was not told. If the page is needed, call again with \"private_network\": true"),
        "{}",
        done.content
    );
    // A proxy finds the host itself, but one that is known here is judged.
    let (by_proxy, proxy) = Ground::by_proxy(port);
    let done = by_proxy.at(&url).await;
    assert!(
        done.content.contains("which the user was not told"),
        "{}",
        done.content
    );
    assert_eq!(proxy.asked(), Vec::<String>::new());
    let done = by_proxy.at("http://docs.example/").await;
    assert_eq!(done.content, "private");
    // It is led to this machine from a host that was allowed.
    let (by_proxy, _proxy) = Ground::by_proxy(server(leading(&here(port))));
    let done = by_proxy.at("http://docs.example/x").await;
    assert!(
        done.content.starts_with(&format!(
            "http://docs.example/x leads to {}, which is another place",
            here(port)
        )),
        "{}",
        done.content
    );
}

#[tokio::test]
async fn floods_and_drips_are_cut_off() {
    let ground = Ground::new();
    // It says that it is short, and never ends.
    let flood = serving(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")?;
        loop {
            stream.write_all(&b"some line\n".repeat(10_000))?;
        }
    });
    let done = ground.at(&here(flood)).await;
    assert!(done.content.starts_with("some line\n"), "{}", done.content);
    assert!(
        done.content
            .contains("\n(Only the first 5 MB of the page were read.)\n\n(This is part 1 of ")
    );
    assert!(done.content.len() < 16_000);
    let drip = serving(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")?;
        loop {
            stream.write_all(b"drop ")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let done = ground
        .fetch(json!({"url": here(drip), "timeout": 0.5}))
        .await;
    assert!(done.content.starts_with("drop drop"), "{}", done.content);
    assert!(
        done.content
            .ends_with("\n(The page was not whole by the time limit.)")
    );
    for silence in ["", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"] {
        let silent = serving(move |_, stream| {
            stream.write_all(silence.as_bytes())?;
            let _ = stream.read(&mut [0]);
            Ok(())
        });
        let done = ground
            .fetch(json!({"url": here(silent), "timeout": 0.2}))
            .await;
        assert_eq!(done.content, "127.0.0.1 did not answer within 0.2 s.");
    }
}

/// None of these is a page, and none holds up other work.
#[tokio::test]
async fn answers_without_an_end_are_given_up() {
    let ground = Ground::new();
    for endless in [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
        "x: y\r\n",
        "a",
    ] {
        let flood = serving(move |_, stream| {
            if !endless.starts_with("HTTP") {
                stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            }
            loop {
                stream.write_all(&endless.repeat(20).into_bytes())?;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let ticks = AtomicUsize::new(0);
        let other_work = async {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        };
        let url = here(flood);
        let done = tokio::select! {
            done = ground.fetch(json!({"url": url, "timeout": 0.5})) => done,
            () = other_work => unreachable!(),
        };
        let is_late = done.content == "127.0.0.1 did not answer within 0.5 s.";
        let is_odd = done.content.starts_with("127.0.0.1 can't be reached: ");
        assert!(is_late || is_odd, "{endless:?}: {}", done.content);
        if is_late {
            assert!(ticks.load(Ordering::Relaxed) > 5, "{endless:?}");
        }
    }
}

/// Elements that never end, as many as fit into a page.
#[tokio::test]
async fn pages_that_nest_without_an_end_are_read() {
    let ground = Ground::new();
    for (begin, end) in [("<dl>", "</ul>"), ("<ul>", "</dl>")] {
        let count = 200_000;
        let nested = begin.repeat(count) + &end.repeat(count) + "<p>x";
        let port = server(page(&nested));
        let done = ground.at(&here(port)).await;
        assert_eq!(done.outcome, CallOutcome::Succeeded);
        assert_eq!(done.content.trim(), "x");
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_and_says_before_how_far_it_is() {
    let ground = Ground::new();
    let (closed, was_closed) = std::sync::mpsc::channel();
    let port = serving(move |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")?;
        stream.write_all(&[b'x'; 5000])?;
        let end = stream.read(&mut [0]);
        closed.send(end.unwrap_or(0)).unwrap();
        Ok(())
    });
    let url = here(port);
    let cancel = async {
        let told = ground.bench.emacs.wait_for(|event| match event {
            Event::CallProgress { text, .. } if text.ends_with("kB") => Some(text.clone()),
            _ => None,
        });
        assert_eq!(told.await, "5 kB");
        ground.bench.batch.cancel.cancel();
    };
    let (done, ()) = tokio::join!(ground.at(&url), cancel);
    assert_eq!(done.outcome, CallOutcome::Cancelled);
    // The connection is closed with it.
    let end = tokio::task::spawn_blocking(move || was_closed.recv_timeout(Duration::from_secs(20)));
    assert_eq!(end.await.unwrap(), Ok(0));
}

#[tokio::test]
async fn what_does_not_fit_into_a_result_is_kept_for_the_model() {
    let mut ground = Ground::new();
    ground.bench.batch.past = Arc::new(PastResults::default());
    let filler = "word ".repeat(1000);
    let sections: String = (1..100)
        .map(|it| format!("<h2>Section {it}</h2><p>{filler}<i>it is No{it}.</i>"))
        .collect();
    let url = here(server(page(&sections)));
    let done = ground.at(&url).await;
    assert!(done.content.contains("\n\n(This is part 1 of 50. call_tool read_result shows others, by their numbers:\n1000001: Section 3 to Section 4\n"), "{}", done.content);
    assert!(done.content.ends_with(
        "\n9 more aren't kept; fetch the page with \"find\", or with the #fragment of a part.)"
    ));
    let past = &ground.bench.batch.past;
    assert_eq!(past.numbers().len(), 40);
    let part = past.text(1_000_001).unwrap();
    assert!(
        part.starts_with("<data-") && part.contains("\n## Section 3\n\nword"),
        "{part}"
    );
    let done = ground.fetch(json!({"url": url, "find": " no97"})).await;
    assert!(
        done.content.starts_with("## Section 97\n"),
        "{}",
        done.content
    );
    let done = ground.fetch(json!({"url": url, "find": "IS NO9"})).await;
    assert!(
        done.content.starts_with("## Section 91\n"),
        "{}",
        done.content
    );
    for found in [
        "Section 9 to Section 10 (found once)\n",
        "Section 93 to Section 94 (found 2 times)\n",
    ] {
        assert!(done.content.contains(found), "{}", done.content);
    }
    let done = ground.fetch(json!({"url": url, "find": "nowhere"})).await;
    assert!(done.content.starts_with("## Section 1\n"));
    assert!(
        done.content
            .contains("\n(The page does not have 'nowhere'.)\n\n(This is part 1")
    );
}

#[tokio::test]
async fn certificates_count() {
    let port = tls_server("of-company.pem");
    let mut ground = Ground::new();
    let url = format!("https://localhost:{port}/");
    let done = ground.at(&url).await;
    assert!(
        done.content
            .starts_with("localhost can't be reached: invalid peer certificate: UnknownIssuer"),
        "{}",
        done.content
    );
    ground.route = json!({"authorities": [certificate("company.pem")]});
    let done = ground.at(&url).await;
    assert_eq!(done.outcome, CallOutcome::Succeeded, "{}", done.content);
}

#[tokio::test]
async fn the_user_is_told_where_an_address_leads_and_what_it_may_carry() {
    let ground = Ground::new();
    for (arguments, told) in [
        (
            json!({"url": "https://docs.example/a"}),
            "asks docs.example.",
        ),
        (
            json!({"url": "https://docs.example/a#b"}),
            "asks docs.example.",
        ),
        (
            json!({"url": "https://DOCS.example:443/a/../b"}),
            "asks docs.example for https://docs.example/b.",
        ),
        (
            json!({"url": "http://docs.example/"}),
            "asks docs.example, unencrypted.",
        ),
        (
            json!({"url": "http://2130706433/"}),
            "asks 127.0.0.1 for http://127.0.0.1/, unencrypted. That is this machine.",
        ),
        (
            json!({"url": "http://localhost:8080/"}),
            "asks localhost, unencrypted. That is this machine.",
        ),
        (
            json!({"url": "http://169.254.169.254/latest/"}),
            "asks 169.254.169.254, unencrypted. That is in a private network.",
        ),
        (
            json!({"url": "https://wiki.corp/", "private_network": true}),
            "asks wiki.corp. It may be this machine or in a private network.",
        ),
        (
            json!({"url": "https://docs.example/?q=abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcde"}),
            "asks docs.example. It sends a query of 67 characters.",
        ),
    ] {
        let (reason, _) = ground.asked(arguments).await;
        assert_eq!(reason, told);
    }
    let refused = ground.at("https://me:pw@docs.example/").await;
    assert_eq!(
        refused.content,
        "The address has a user or a password in it, which are not sent."
    );
}

#[tokio::test]
async fn a_rule_for_a_host_covers_its_pages_and_nothing_that_may_carry_data() {
    // Nothing speaks TLS there, so that nothing is fetched: who said yes is what counts.
    let (ground, _proxy) = Ground::by_proxy(free_port());
    let of_page = json!({"url": "https://docs.example/a"});
    let (_, rules) = ground.asked(of_page.clone()).await;
    let widths: Vec<Width> = rules.iter().map(|it| it.0).collect();
    assert_eq!(widths, [Width::Host, Width::Call]);
    let (_, rule) = &rules[0];
    assert!(rule.check().is_ok());
    assert_eq!(
        rule.describe_beside_its_call(),
        "Always fetch pages of docs.example, by https and with short addresses, in this chat."
    );
    assert_eq!(
        rules[1].1.describe_beside_its_call(),
        "Always run exactly this call, in this chat."
    );
    ground
        .bench
        .executor
        .rules
        .lock()
        .unwrap()
        .add(rule.clone())
        .unwrap();
    let covered = |arguments: Value| {
        let ground = &ground;
        async move {
            // Each in a turn of its own, that has read nothing yet.
            let mut batch = ground.bench.batch.clone();
            batch.place = TurnPlace::new(1, 7, None, None);
            batch.approval = Approval::None;
            ground.emacs_is_asked();
            let calls = [call("c", web::NAME, arguments)];
            let result = ground
                .bench
                .executor
                .run(&calls, &batch)
                .await
                .pop()
                .unwrap();
            result.consent == Consent::ByRule
        }
    };
    for (url, is_covered) in [
        ("https://docs.example/a", true),
        ("https://docs.example/other/page.html?lang=en#x", true),
        ("https://docs.example.:443/", true),
        ("http://docs.example/a", false),
        ("https://docs.example:8443/a", false),
        ("https://www.docs.example/a", false),
        ("https://docs.example.evil.example/", false),
        (
            "https://docs.example/?q=abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcde",
            false,
        ),
        ("https://docs.example/%73ecret", false),
        (
            "https://docs.example/QUtJQUlPU0ZPRE5ON0VYQU1QTEU0QUtJQUlPU0ZPRE5ON0VYQU1Q",
            false,
        ),
    ] {
        assert_eq!(covered(json!({"url": url})).await, is_covered, "{url}");
    }
    assert!(!covered(json!({"url": "https://docs.example/a", "private_network": true})).await);
    // No rule for a host is offered where it could not hold.
    for url in [
        "http://docs.example/",
        "https://8.8.8.8/",
        "https://localhost/",
        "https://docs.example:1/",
    ] {
        let (_, rules) = ground.asked(json!({"url": url})).await;
        assert_eq!(rules.len(), 1, "{url}");
    }
    // Once the chat knows what may hold secrets, each page is asked about.
    let folder = TempDir::new().unwrap();
    let secrets = folder.path().join(".env");
    std::fs::write(&secrets, "KEY=1").unwrap();
    ground.bench.batch.workspace.saw_text(&secrets, "KEY=1");
    assert!(!covered(of_page.clone()).await);
    let (reason, _) = ground.asked(of_page).await;
    assert_eq!(
        reason,
        "asks docs.example. This chat has read what may hold secrets: .env."
    );
    // Private networks are beyond a rule that was written by hand, too, unless it says so.
    let mut by_hand = Rule::new(Effect::Allow, web::NAME, Scope::Chat(7));
    by_hand.dangerous = Floor::Waived;
    let argument = |name: &str, text: &str| ArgumentPattern {
        name: name.to_owned(),
        pattern: TextPattern::Matches(text.to_owned()),
    };
    by_hand.arguments = vec![argument("url", "https://docs\\.example/.*")];
    let rules = &ground.bench.executor.rules;
    rules.lock().unwrap().add(by_hand.clone()).unwrap();
    let private = json!({"url": "https://docs.example/a", "private_network": true});
    assert!(!covered(private.clone()).await);
    by_hand.arguments.push(argument("private_network", "true"));
    rules.lock().unwrap().add(by_hand).unwrap();
    assert!(covered(private).await);
}

#[tokio::test]
async fn plans_may_look_at_pages_that_a_rule_allows() {
    let (mut ground, _proxy) = Ground::by_proxy(free_port());
    ground.bench.batch.plan = PlanMode::Look;
    let of_page = json!({"url": "https://docs.example/a"});
    let denied = ground.fetch(of_page.clone()).await;
    assert!(
        denied
            .content
            .contains("no rule of the user's allows this call, which changes nothing"),
        "{}",
        denied.content
    );
    let mut rule = Rule::new(Effect::Allow, web::NAME, Scope::Chat(7));
    rule.dangerous = Floor::Waived;
    rule.alarms = vec![agent_q_core::rules::Alarm {
        reason: agent_q_core::rules::FETCHES.to_owned(),
        operator: Some("docs.example".to_owned()),
    }];
    ground
        .bench
        .executor
        .rules
        .lock()
        .unwrap()
        .add(rule)
        .unwrap();
    let allowed = ground.fetch(of_page).await;
    assert_eq!(allowed.consent, Consent::ByRule);
    let denied = ground.fetch(json!({"url": "http://docs.example/a"})).await;
    assert!(
        denied.content.contains("fetch_url could change something"),
        "{}",
        denied.content
    );
}
