"""What sslyze, which speaks every version of TLS and SSL by an OpenSSL of its own, finds out about a port."""

import dataclasses

import sslyze
from sslyze import ScanCommandAttemptStatusEnum, ServerScanStatusEnum, TlsVersionEnum

# What is read from outside only to show it, or is another file's to check (who signed what).
SHOWN_ALONE = {"certificate_info", "http_headers", "session_resumption"}
AEAD = ("_GCM_SHA256", "_GCM_SHA384", "_POLY1305_SHA256")
SECONDS = 20
CURVES = {"X25519", "secp256r1", "prime256v1", "secp384r1"}
GOOD = {
    "elliptic_curves": lambda it: {curve.name for curve in it.supported_curves} <= CURVES,
    "tls_compression": lambda it: not it.supports_compression,
    "tls_1_3_early_data": lambda it: not it.supports_early_data,
    "openssl_ccs_injection": lambda it: not it.is_vulnerable_to_ccs_injection,
    "heartbleed": lambda it: not it.is_vulnerable_to_heartbleed,
    "tls_fallback_scsv": lambda it: it.supports_fallback_scsv,
    "tls_extended_master_secret": lambda it: it.supports_ems_extension,
    "robot": lambda it: it.robot_result.name.startswith("NOT_VULNERABLE"),
    "session_renegotiation": lambda it: (
        it.supports_secure_renegotiation and not it.is_vulnerable_to_client_renegotiation_dos
    ),
}


def demand_safe(port, has_1_2=True, asks_for_certificate=False):
    """TLS 1.3 alone or with 1.2, by ciphers whose keys are forgotten, and none of the faults that TLS had so far."""
    location = sslyze.ServerNetworkLocation("localhost", port, ip_address="127.0.0.1")
    way = sslyze.ServerNetworkConfiguration("localhost", network_timeout=SECONDS)
    scanner = sslyze.Scanner()
    scanner.queue_scans([sslyze.ServerScanRequest(location, way)])
    [found] = scanner.get_results()
    assert found.scan_status == ServerScanStatusEnum.COMPLETED, found.connectivity_error_trace
    results = {}
    for field in dataclasses.fields(found.scan_result):
        attempt = getattr(found.scan_result, field.name)
        if field.name not in SHOWN_ALONE:
            # What is found out behind a handshake stays hidden from who has no certificate.
            if attempt.error_reason and attempt.error_reason.name == "CLIENT_CERTIFICATE_NEEDED":
                assert asks_for_certificate, field.name
                continue
            is_done = attempt.status == ScanCommandAttemptStatusEnum.COMPLETED
            assert is_done, "".join(attempt.error_trace.format())
            results[field.name] = attempt.result
    accepted = {}
    for name in [name for name in results if name.endswith("_cipher_suites")]:
        result = results.pop(name)
        ciphers = [it.cipher_suite.name for it in result.accepted_cipher_suites]
        if ciphers:
            accepted[result.tls_version_used] = ciphers
    versions = [TlsVersionEnum.TLS_1_2, TlsVersionEnum.TLS_1_3] if has_1_2 else [TlsVersionEnum.TLS_1_3]
    assert list(accepted) == versions, accepted
    for cipher in accepted.get(TlsVersionEnum.TLS_1_2, []):
        assert cipher.startswith("TLS_ECDHE_") and cipher.endswith(AEAD), cipher
    for name, is_good in GOOD.items():
        assert name not in results or is_good(results.pop(name)), name
    assert not results, "a check of sslyze that nothing is asked of"
