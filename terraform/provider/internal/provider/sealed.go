package provider

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// A secret that the service makes can only be written down once. With the public key of its reader it stands in the
// state as RSA-OAEP (SHA-256) over its text, in base64, and the text is nowhere but with who has the private key.

const rsaBitsMin = 2048

// sealed is the text for who has the private key of the public one, given as PEM.
func sealed(publicKey, text string) (string, error) {
	key, err := publicKeyOf(publicKey)
	if err != nil {
		return "", err
	}
	cipher, err := rsa.EncryptOAEP(sha256.New(), rand.Reader, key, []byte(text), nil)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(cipher), nil
}

// opened gives the text back.
func opened(privateKey, cipher string) (string, error) {
	key, err := privateKeyOf(privateKey)
	if err != nil {
		return "", err
	}
	bytes, err := base64.StdEncoding.DecodeString(cipher)
	if err != nil {
		return "", errors.New("not base64")
	}
	text, err := key.Decrypt(nil, bytes, &rsa.OAEPOptions{Hash: crypto.SHA256})
	if err != nil {
		return "", errors.New("not encrypted for this key")
	}
	return string(text), nil
}

func publicKeyOf(text string) (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("a public key in PEM required, as `openssl pkey -pubout` writes it")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < rsaBitsMin {
		return nil, fmt.Errorf("an RSA key of at least %d bits required", rsaBitsMin)
	}
	return key, nil
}

func privateKeyOf(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("a private key in PEM required")
	}
	if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if key, ok := parsed.(*rsa.PrivateKey); ok {
			return key, nil
		}
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	return nil, errors.New("a private RSA key without a passphrase required")
}

// kept are a secret's two attributes: its text, or what only the reader can open.
func kept(encryptTo types.String, text string) (plain, cipher types.String, err error) {
	if encryptTo.IsNull() {
		return types.StringValue(text), types.StringNull(), nil
	}
	cover, err := sealed(encryptTo.ValueString(), text)
	return types.StringNull(), types.StringValue(cover), err
}

func encryptToAttribute(what string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:   true,
		Validators: []validator.String{publicKeyValidator{}},
		MarkdownDescription: "A public RSA key in PEM, of who may read the " + what + ". With it only the ciphertext is in the state. " +
			"Another one: the " + what + " is **rotated**, since the text is nowhere any more.",
	}
}

type publicKeyValidator struct{}

func (publicKeyValidator) Description(context.Context) string { return "a public RSA key in PEM" }

func (v publicKeyValidator) MarkdownDescription(ctx context.Context) string {
	return v.Description(ctx)
}

func (publicKeyValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := publicKeyOf(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "No public key to encrypt to", err.Error())
	}
}

// -- the function that opens it ----------------------------------------------------------------------------------

type decrypted struct{}

func newDecrypted() function.Function { return decrypted{} }

func (decrypted) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "decrypted"
}

func (decrypted) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "The text of a secret that was encrypted to a public key",
		MarkdownDescription: "Gives back the text of `encrypted_key` or `encrypted_secret`. With an ephemeral variable as the private key " +
			"the result is ephemeral too: it may go into write-only arguments and the configuration of providers, and into no state.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "ciphertext", MarkdownDescription: "`encrypted_key` or `encrypted_secret`."},
			function.StringParameter{Name: "private_key", MarkdownDescription: "The private RSA key in PEM, without a passphrase."},
		},
		Return: function.StringReturn{},
	}
}

func (decrypted) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var cipher, key string
	resp.Error = function.ConcatFuncErrors(resp.Error, req.Arguments.Get(ctx, &cipher, &key))
	if resp.Error != nil {
		return
	}
	text, err := opened(key, cipher)
	if err != nil {
		resp.Error = function.NewFuncError(err.Error())
		return
	}
	resp.Error = function.ConcatFuncErrors(resp.Error, resp.Result.Set(ctx, text))
}
