//! What goes wrong in sessions, in words that name the thing and the remedy.

use rustls::{AlertDescription as Alert, CertificateError, Error, InconsistentKeys, InvalidMessage};

/// What an error means to a program that talks to `peer`.
pub fn words(error: &Error, peer: &str) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error, peer),
        Error::AlertReceived(alert) => refused(*alert, peer),
        Error::NoCertificatesPresented => {
            format!("{peer} has shown no certificate: this server demands one (client_ca)")
        }
        Error::NoApplicationProtocol => {
            format!("{peer} speaks none of the protocols that this end speaks: compare the options 'alpn'")
        }
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => format!("{peer} does not speak TLS here: what came is no TLS record"),
        Error::PeerIncompatible(why) => {
            format!("{peer} and this end have no version or cipher of TLS in common ({why:?})")
        }
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "the key does not belong to the certificate".into()
        }
        Error::DecryptError => format!("a record of {peer} was changed on its way"),
        error => format!("TLS with {peer} has failed: {error}"),
    }
}

fn certificate(error: &CertificateError, peer: &str) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => format!(
            "the certificate of {peer} has expired on {}: it has to be renewed, unless this machine's clock \
             is wrong",
            date(not_after.as_secs())
        ),
        CertificateError::Expired => format!(
            "the certificate of {peer} has expired: it has to be renewed, unless this machine's clock is \
             wrong"
        ),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "the certificate of {peer} is valid from {} on only: is this machine's clock right?",
            date(not_before.as_secs())
        ),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<String> = presented.iter().map(|name| plain(name)).collect();
            format!(
                "the certificate is not for {peer}{}: connect to the name that is meant, or say which one it \
                 is with tls={{name=...}}",
                if names.is_empty() {
                    " and names nobody else".into()
                } else {
                    format!(" but for {}", names.join(", "))
                }
            )
        }
        CertificateError::NotValidForName => {
            format!("the certificate is not for {peer}: say which name is meant with tls={{name=...}}")
        }
        CertificateError::UnknownIssuer => format!(
            "the certificate of {peer} is signed by nobody that this end trusts: if it is an authority of \
             your own, name its certificate (ca for servers, client_ca for clients)"
        ),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => format!(
            "the certificate of {peer} is an authority's own and may not be used by a server: make one that \
             is signed by it"
        ),
        CertificateError::Revoked => format!("the certificate of {peer} has been revoked"),
        CertificateError::BadSignature => format!("the certificate of {peer} has a signature that is wrong"),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => format!(
            "the certificate of {peer} is for another purpose: it lacks the right to be used for this \
             (extended key usage)"
        ),
        CertificateError::BadEncoding => format!("the certificate of {peer} cannot be read"),
        error => format!("the certificate of {peer} cannot be trusted: {error}"),
    }
}

/// What an alert of the other end tells.
fn refused(alert: Alert, peer: &str) -> String {
    match alert {
        Alert::CertificateRequired => {
            format!("{peer} demands a certificate: name one with tls={{cert=, key=}}")
        }
        Alert::UnknownCA => {
            format!("{peer} does not trust the authority that has signed this end's certificate (unknown_ca)")
        }
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown => {
            format!("{peer} does not accept this end's certificate ({alert:?})")
        }
        Alert::CertificateExpired => format!("{peer} says that this end's certificate has expired"),
        Alert::CertificateRevoked => format!("{peer} says that this end's certificate has been revoked"),
        Alert::UnrecognisedName => format!("{peer} has no certificate for that name (unrecognized_name)"),
        Alert::NoApplicationProtocol => {
            format!("{peer} speaks none of the protocols that were offered to it: see the option 'alpn'")
        }
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            format!("{peer} and this end have no version or cipher of TLS in common ({alert:?})")
        }
        alert => format!("{peer} has ended the TLS session: {alert:?}"),
    }
}

/// `DnsName("a.example")` as people write it.
fn plain(presented: &str) -> String {
    match presented.split_once('(') {
        Some((_, rest)) => rest.trim_end_matches(')').trim_matches('"').to_owned(),
        None => presented.to_owned(),
    }
}

/// Seconds since 1970 as a date.
fn date(seconds: u64) -> String {
    // Howard Hinnant's civil_from_days, for days after the year 0.
    let days = (seconds / 86_400) as i64 + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (4_102_444_800, "2100-01-01"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn names_are_shown_as_people_write_them() {
        assert_eq!(plain("DnsName(\"a.example\")"), "a.example");
        assert_eq!(plain("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain("x"), "x");
    }
}
