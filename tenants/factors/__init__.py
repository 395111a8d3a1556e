"""Second factors of people: one-time codes (TOTP), passkeys (WebAuthn) and recovery codes."""
