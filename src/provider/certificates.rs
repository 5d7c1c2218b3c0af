// SPDX-License-Identifier: GPL-3.0-or-later
//! Which certificates of servers are accepted: those that an authority signed, one of the system's or of
//! the user's files, and one that signed itself if exactly that one is in the provider's own file. Names and
//! dates count for each of them. There is no way around this.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier;

use super::address::settings_failure;
use super::failure::ProviderError;
use super::route::CertificateFile;

/// How TLS is spoken with a server. AUTHORITIES count beside the system's; OWN is the provider's own file.
pub fn tls(
    authorities: &[CertificateFile],
    own: Option<&CertificateFile>,
) -> Result<ClientConfig, ProviderError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let own = own.map(|file| own_certificates(&file.path)).transpose()?;
    let accepted = Accepted::new(authorities, own.unwrap_or_default(), &provider);
    let config = accepted.and_then(|accepted| {
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(accepted))
            .with_no_client_auth();
        Ok(config)
    });
    let mut config = config.map_err(|error| {
        settings_failure(format!(
            "TLS can't be set up: {error}. Are CA certificates installed?"
        ))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The certificates in the file that a provider names.
fn own_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ProviderError> {
    let certificates = certificates_in(path).map_err(|error| match error {
        PemError::Io(error) => error.to_string(),
        error => error.to_string(),
    });
    let why = match certificates {
        Ok(certificates) if certificates.is_empty() => "there is no certificate in it".to_owned(),
        Ok(certificates) => return Ok(certificates),
        Err(why) => why,
    };
    Err(settings_failure(format!(
        "The :ca-file {} can't be used: {why}. It takes certificates as PEM, which begin with -----BEGIN CERTIFICATE-----.",
        path.display()
    )))
}

/// The certificates in the file at PATH, or in the files of the folder there.
fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    if !path.is_dir() {
        return CertificateDer::pem_file_iter(path)?.collect();
    }
    let entries = std::fs::read_dir(path).map_err(PemError::Io)?;
    // Of a folder, what is no certificate is somebody else's.
    let files = entries.flatten().map(|entry| entry.path());
    let read = files.filter(|file| file.is_file()).map(|file| {
        let certificates = CertificateDer::pem_file_iter(file).ok();
        certificates.into_iter().flatten().flatten()
    });
    Ok(read.flatten().collect())
}

/// The certificates that are accepted.
#[derive(Debug)]
struct Accepted {
    /// None on a machine without authorities, where the provider's own certificates are all there is.
    authorities: Option<Verifier>,
    /// Those that are accepted when a server shows the very same.
    own: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Accepted {
    fn new(
        files: &[CertificateFile],
        own: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let algorithms = provider.signature_verification_algorithms;
        let shared = files.iter().flat_map(|file| {
            certificates_in(&file.path).unwrap_or_else(|error| {
                tracing::warn!("{} has no certificates: {error}", file.path.display());
                Vec::new()
            })
        });
        let found = shared.chain(own.iter().cloned());
        let extra: Vec<_> = found.filter(|it| is_authority(it, algorithms)).collect();
        let authorities = match Verifier::new_with_extra_roots(extra, Arc::clone(provider)) {
            Ok(verifier) => Some(verifier),
            Err(_) if !own.is_empty() => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            authorities,
            own,
            algorithms,
        })
    }

    /// Whether CERTIFICATE, one of the provider's own, is of NAME and not outdated.
    fn verify_own(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        match verify_alone(certificate, now, self.algorithms) {
            // The dates were looked at before.
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
            Err(error) if is_of_authority(&error) => {}
            other => other?,
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
    }
}

/// Judges CERTIFICATE as one of a server that has signed itself: its dates, then whether it is of an
/// authority, then its signature.
fn verify_alone(
    certificate: &CertificateDer<'_>,
    now: UnixTime,
    algorithms: WebPkiSupportedAlgorithms,
) -> Result<(), Error> {
    let mut itself = RootCertStore::empty();
    itself.add(certificate.clone().into_owned())?;
    let parsed = ParsedCertificate::try_from(certificate)?;
    verify_server_cert_signed_by_trust_anchor(&parsed, &itself, &[], now, algorithms.all)
}

/// Whether ERROR says that a certificate is of an authority, not of a server.
fn is_of_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else {
        return false;
    };
    // Certificates of the first version don't say what they are of; no server's is accepted.
    matches!(
        other.0.downcast_ref(),
        Some(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnsupportedCertVersion)
    )
}

/// Whether CERTIFICATE may sign others. The library would have any sign that it is told to trust.
fn is_authority(certificate: &CertificateDer<'_>, algorithms: WebPkiSupportedAlgorithms) -> bool {
    verify_alone(certificate, UnixTime::now(), algorithms)
        .is_err_and(|error| is_of_authority(&error))
}

/// Whether CERTIFICATE names itself as who signed it.
fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    webpki::EndEntityCert::try_from(certificate).is_ok_and(|it| it.issuer() == it.subject())
}

impl ServerCertVerifier for Accepted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.own.contains(end_entity) {
            self.verify_own(end_entity, server_name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(verifier) if !is_self_signed(end_entity) => verifier.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            _ => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
