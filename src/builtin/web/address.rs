// SPDX-License-Identifier: GPL-3.0-or-later
//! Addresses of pages: which can be fetched at all, what the user has to know of one before it leaves, and
//! which networks they lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::visible::{is_hidden, spelled};

/// The longest address: the user has to read all of it.
pub(super) const LONGEST: usize = 2000;

/// How long a path with its query, and a query, may be before they count as a way for data to leave.
const LONGEST_PATH: usize = 160;
const LONGEST_QUERY: usize = 64;

/// How many letters and digits in a row are still a word, a number or the hash of a commit.
const LONGEST_RUN: usize = 40;

/// The address of a page in its one spelling, without the place in the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: Url,
    /// The part of the page that is wanted, which no server is sent.
    pub(super) fragment: Option<String>,
}

impl Address {
    /// The address that TEXT is.
    ///
    /// # Errors
    ///
    /// A sentence on why nothing can be fetched from there.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() > LONGEST {
            return Err(format!(
                "The address has {} characters; at most {LONGEST} can be asked about.",
                text.len()
            ));
        }
        if let Some(hidden) = text.chars().find(|&it| is_hidden(it)) {
            return Err(format!(
                "The address has the character {} in it, which can't be seen.",
                hidden.escape_default()
            ));
        }
        let shown = spelled(text, 200);
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => {
                format!(
                    "'{shown}' is not an address; write all of it, such as https://example.org/."
                )
            }
            url::ParseError::IdnaError => {
                format!("The host of '{shown}' is not ASCII; write its name as xn--… does.")
            }
            error => format!("'{shown}' is not an address: {error}."),
        })?;
        Self::of(url)
    }

    /// URL as an address that can be fetched.
    ///
    /// # Errors
    ///
    /// A sentence on why it can't.
    pub(super) fn of(mut url: Url) -> Result<Self, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "Only pages by http and https can be fetched, not by {}.",
                spelled(url.scheme(), 40)
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "The address has a user or a password in it, which are not sent.".to_owned(),
            );
        }
        // The same host, by another name as far as rules are concerned.
        let host = url.host_str().unwrap_or_default();
        let plain = host.trim_end_matches('.').to_owned();
        if plain.is_empty() || (plain != host && url.set_host(Some(&plain)).is_err()) {
            return Err("The address has no host.".to_owned());
        }
        let fragment = url.fragment().map(|it| {
            let decoded = percent_decode_str(it).decode_utf8_lossy();
            decoded.into_owned()
        });
        url.set_fragment(None);
        Ok(Self { url, fragment })
    }

    /// Its host, as rules know it.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The network that it leads to by what it says alone; none for one of the internet, or a name.
    pub(super) fn network(&self) -> Option<Network> {
        match self.url.host()? {
            Host::Ipv4(ip) => network(ip.into()),
            Host::Ipv6(ip) => network(ip.into()),
            Host::Domain(name) => {
                let is_here = name == "localhost" || name.ends_with(".localhost");
                is_here.then_some(Network::ThisMachine)
            }
        }
    }

    /// What a rule for all of its host knows it by; none where such a rule is not about it.
    pub(super) fn ruled_host(&self) -> Option<&str> {
        let url = &self.url;
        let is_plain = url.scheme() == "https" && url.port().is_none();
        is_plain.then(|| url.domain()).flatten()
    }

    /// What could make it carry more than the name of a page, in sentences.
    pub(super) fn concerns(&self) -> Vec<String> {
        let url = &self.url;
        let query = url.query().unwrap_or_default();
        let length = url.path().len() + query.len();
        let mut concerns = Vec::new();
        if query.len() > LONGEST_QUERY {
            concerns.push(format!("It sends a query of {} characters.", query.len()));
        } else if length > LONGEST_PATH {
            concerns.push(format!("It sends a path of {length} characters."));
        }
        let sent = format!("{}?{query}", url.path());
        if let Some(run) = longest_run(&sent).filter(|it| it.len() > LONGEST_RUN) {
            concerns.push(format!("'{run}' in it may be data rather than a name."));
        }
        if let Some(decoded) = needlessly_encoded(&sent) {
            concerns.push(format!(
                "It is written so that it can't be read; decoded it says '{decoded}'."
            ));
        }
        let host = self.host();
        if host.split('.').any(|label| label.len() > LONGEST_RUN) {
            concerns.push("A part of its host is long, and may be data.".to_owned());
        }
        if host.split('.').any(|label| label.starts_with("xn--")) {
            concerns.push(
                "The name of its host has letters that are not ASCII, and may look like another name elsewhere."
                    .to_owned(),
            );
        }
        concerns
    }

    /// Whether OTHER, to which a server leads on, is of the place that was agreed to: the same scheme, host and
    /// port, or https in place of http where both have the usual port.
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        let place = |it: &Self| (it.url.scheme().to_owned(), it.url.port_or_known_default());
        let is_safer = place(self) == ("http".to_owned(), Some(80))
            && place(other) == ("https".to_owned(), Some(443));
        self.host() == other.host() && (place(self) == place(other) || is_safer)
    }
}

/// The longest run of letters and digits in TEXT that has both.
fn longest_run(text: &str) -> Option<&str> {
    // What base64 has beside them counts, too, but for the slash of paths and the hyphen of slugs.
    let runs = text.split(|it: char| !it.is_ascii_alphanumeric() && !matches!(it, '+' | '%'));
    runs.filter(|it| {
        it.bytes().any(|it| it.is_ascii_digit()) && it.bytes().any(|it| it.is_ascii_alphabetic())
    })
    .max_by_key(|it| it.len())
}

/// TEXT decoded, if characters are encoded in it that need not be, or can't be seen.
fn needlessly_encoded(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8_lossy();
    let needs_none = |it: &u8| it.is_ascii_alphanumeric() || b"-._~".contains(it);
    let bytes = text.as_bytes();
    let is_needless = bytes.windows(3).any(|it| {
        let digits = std::str::from_utf8(&it[1..]).ok();
        let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        it[0] == b'%' && byte.is_some_and(|it| needs_none(&it) || it.is_ascii_control())
    });
    (is_needless || decoded.chars().any(is_hidden)).then(|| spelled(&decoded, LONGEST))
}

/// A network that isn't the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    ThisMachine,
    Private,
}

impl Network {
    /// In a sentence about an address or a host.
    pub(super) fn phrase(self) -> &'static str {
        match self {
            Self::ThisMachine => "this machine",
            Self::Private => "a private network",
        }
    }
}

/// The network of IP; none for the internet. What is not known to be of the internet isn't.
pub(super) fn network(ip: IpAddr) -> Option<Network> {
    match ip {
        IpAddr::V4(ip) => network_of_v4(ip),
        IpAddr::V6(ip) => network_of_v6(ip),
    }
}

fn network_of_v4(ip: Ipv4Addr) -> Option<Network> {
    match ip.octets() {
        [0 | 127, ..] => Some(Network::ThisMachine),
        [10 | 224..=255, ..]
        | [100, 64..=127, ..]
        | [169, 254, ..]
        | [172, 16..=31, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [192, 168, ..]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Some(Network::Private),
        _ => None,
    }
}

fn network_of_v6(ip: Ipv6Addr) -> Option<Network> {
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        network_of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Some(Network::ThisMachine),
        // Addresses of version 4: mapped, translated by a gateway, and in a tunnel.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        // Another tunnel, and examples.
        [0x2001, 0 | 0xdb8, ..] => Some(Network::Private),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Network::Private),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn spellings_of_this_machine_and_of_private_networks_are_known() {
        use Network::{Private, ThisMachine};
        for (host, network) in [
            ("localhost", Some(ThisMachine)),
            ("LOCALHOST.", Some(ThisMachine)),
            ("a.localhost", Some(ThisMachine)),
            ("127.0.0.1", Some(ThisMachine)),
            ("127.1", Some(ThisMachine)),
            ("127.0.0.1.", Some(ThisMachine)),
            ("2130706433", Some(ThisMachine)),
            ("0x7f.1", Some(ThisMachine)),
            ("017700000001", Some(ThisMachine)),
            ("%31%32%37.0.0.1", Some(ThisMachine)),
            ("0", Some(ThisMachine)),
            ("[::]", Some(ThisMachine)),
            ("[::1]", Some(ThisMachine)),
            ("[::ffff:127.0.0.1]", Some(ThisMachine)),
            ("[64:ff9b::127.0.0.1]", Some(ThisMachine)),
            ("[2002:7f00:1::]", Some(ThisMachine)),
            ("10.1.2.3", Some(Private)),
            ("100.64.0.1", Some(Private)),
            ("169.254.169.254", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("192.168.0.1", Some(Private)),
            ("198.19.0.1", Some(Private)),
            ("224.0.0.1", Some(Private)),
            ("255.255.255.255", Some(Private)),
            ("[fe80::1]", Some(Private)),
            ("[fc00::1]", Some(Private)),
            ("[fec0::1]", Some(Private)),
            ("[ff02::1]", Some(Private)),
            ("[::10.0.0.1]", Some(Private)),
            ("[64:ff9b:1::1]", Some(Private)),
            ("[2001:0:1::1]", Some(Private)),
            ("[2001:db8::1]", Some(Private)),
            ("8.8.8.8", None),
            ("172.32.0.1", None),
            ("100.128.0.1", None),
            ("[2606:4700::1111]", None),
            ("[::ffff:8.8.8.8]", None),
            ("example.org", None),
            ("localhost.example.org", None),
        ] {
            assert_eq!(
                address(&format!("http://{host}/")).network(),
                network,
                "{host}"
            );
        }
    }

    #[test]
    fn what_is_no_address_of_a_page_is_refused_in_words() {
        for (text, why) in [
            ("", "is not an address; write all of it"),
            ("/etc/passwd", "is not an address; write all of it"),
            ("example.org", "is not an address; write all of it"),
            ("file:///etc/passwd", "not by file."),
            ("ftp://example.org/", "not by ftp."),
            ("gopher://example.org/", "not by gopher."),
            ("https://me@example.org/", "has a user or a password"),
            ("https://me:secret@example.org/", "has a user or a password"),
            ("https:///", "is not an address"),
            ("https://./", "has no host"),
            ("https://exa\u{200b}mple.org/", "can't be seen"),
            ("https://example.org/\u{202e}gpj", "can't be seen"),
            ("https://example.org/a\nb", "can't be seen"),
            ("https://ex\u{430}mple.org/", "write its name as xn--"),
            ("https://example.org:99999/", "is not an address"),
        ] {
            let refused = Address::parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let long = format!("https://example.org/{}", "a".repeat(2000));
        assert!(
            Address::parse(&long)
                .unwrap_err()
                .contains("2020 characters")
        );
    }

    #[test]
    fn an_address_has_one_spelling() {
        for (text, url) in [
            (" HTTPS://Example.ORG. ", "https://example.org/"),
            ("https://example.org:443/a/../b", "https://example.org/b"),
            (
                "https://example.org\\@evil.org/",
                "https://example.org/@evil.org/",
            ),
            ("http://example.org:80/a b", "http://example.org/a%20b"),
            ("https://example.org/\u{fc}", "https://example.org/%C3%BC"),
        ] {
            assert_eq!(address(text).url.as_str(), url);
        }
        let with_place = address("https://example.org/a#caf%C3%A9");
        assert_eq!(with_place.url.as_str(), "https://example.org/a");
        assert_eq!(with_place.fragment.as_deref(), Some("caf\u{e9}"));
    }

    #[test]
    fn what_may_carry_data_is_told() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        for plain in [
            "https://example.org/".to_owned(),
            "https://www.sbcl.org/manual/index.html?lang=en".to_owned(),
            format!("https://github.com/slime/slime/commit/{hash}"),
            "https://example.org/a-long-slug-of-many-words-about-common-lisp-in-2024".to_owned(),
            "https://example.org/a%20b/caf%C3%A9".to_owned(),
        ] {
            assert_eq!(address(&plain).concerns(), Vec::<String>::new(), "{plain}");
        }
        for (text, told) in [
            (
                format!("https://example.org/?q={}", "a".repeat(63)),
                "a query of 65 characters",
            ),
            (
                format!("https://example.org/{}", "a/".repeat(80)),
                "a path of 161 characters",
            ),
            (format!("https://example.org/{hash}0"), "may be data"),
            (format!("https://example.org/?{hash}0"), "may be data"),
            (
                format!("https://{}.example.org/", "a".repeat(50)),
                "part of its host is long",
            ),
            (
                "https://example.org/%73%65cret".to_owned(),
                "decoded it says '/secret?'",
            ),
            (
                "https://example.org/%0d%0aX".to_owned(),
                "decoded it says '/\\r\\nX?'",
            ),
            (
                "https://example.org/%E2%80%AE".to_owned(),
                "decoded it says '/\\u{202e}?'",
            ),
            (
                "https://xn--80ak6aa92e.com/".to_owned(),
                "may look like another",
            ),
        ] {
            let concerns = address(&text).concerns().join(" ");
            assert!(concerns.contains(told), "{text}: {concerns}");
        }
    }

    #[test]
    fn rules_for_hosts_are_about_https_at_the_usual_port() {
        for (text, host) in [
            ("https://example.org/a", Some("example.org")),
            ("https://example.org.:443/a", Some("example.org")),
            ("http://example.org/a", None),
            ("https://example.org:8443/a", None),
            ("https://8.8.8.8/", None),
            ("https://[2606:4700::1111]/", None),
        ] {
            assert_eq!(address(text).ruled_host(), host, "{text}");
        }
    }

    #[test]
    fn a_server_may_lead_on_to_its_own_place_alone() {
        for (from, to, same) in [
            ("https://a.org/x", "https://a.org/y?z", true),
            ("http://a.org/", "https://a.org/", true),
            ("https://a.org/", "http://a.org/", false),
            ("http://a.org:8080/", "https://a.org/", false),
            ("https://a.org/", "https://a.org:8443/", false),
            ("https://a.org/", "https://www.a.org/", false),
            ("http://localhost:1/", "http://localhost:2/", false),
            ("http://localhost:1/", "http://127.0.0.1:1/", false),
        ] {
            assert_eq!(
                address(from).is_same_place(&address(to)),
                same,
                "{from} {to}"
            );
        }
    }
}
