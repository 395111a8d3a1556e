package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

func pemOf(t *testing.T, kind string, bytes []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
}

func TestOnlyTheReaderOpensWhatIsSealed(t *testing.T) {
	keys := make([]*rsa.PrivateKey, 2)
	for i := range keys {
		made, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = made
	}
	shown, err := x509.MarshalPKIXPublicKey(&keys[0].PublicKey)
	public := pemOf(t, "PUBLIC KEY", shown, err)
	cipher, err := sealed(public, "the text")
	if err != nil || strings.Contains(cipher, "the text") {
		t.Fatal(cipher, err)
	}
	eight, err := x509.MarshalPKCS8PrivateKey(keys[0])
	for _, private := range []string{
		pemOf(t, "PRIVATE KEY", eight, err), pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(keys[0]), nil),
	} {
		if text, err := opened(private, cipher); err != nil || text != "the text" {
			t.Errorf("%q, %v", text, err)
		}
	}
	another := pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(keys[1]), nil)
	for _, wrong := range [][2]string{{another, cipher}, {"", cipher}, {public, cipher}, {another, "§"}, {another, ""}} {
		if text, err := opened(wrong[0], wrong[1]); err == nil {
			t.Errorf("opened: %q", text)
		}
	}
}

func TestWeakAndForeignKeysAreRefused(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(&curve.PublicKey)
	for _, wrong := range []string{"", "text", pemOf(t, "PUBLIC KEY", shown, err), pemOf(t, "PUBLIC KEY", []byte("x"), nil)} {
		if _, err := publicKeyOf(wrong); err == nil {
			t.Errorf("taken: %q", wrong)
		}
	}
}
