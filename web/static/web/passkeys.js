// Asks the browser for a passkey, and sends its answer with the form. Without scripts the form stays hidden or says why.
(() => {
  "use strict";
  const form = document.querySelector("form[data-passkey]");
  const source = document.getElementById("passkey-options");
  if (!form || !source || !window.PublicKeyCredential) return;
  form.hidden = false;
  document.querySelector("[data-without-passkeys]").hidden = true;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replace(/\+/g, "-")
      .replace(/\//g, "_")
      .replace(/=+$/, "");

  // Fields of the options and of the answer that are bytes travel as base64url.
  const asked = (options) => {
    const made = { ...options, challenge: bytes(options.challenge) };
    if (options.user) made.user = { ...options.user, id: bytes(options.user.id) };
    for (const name of ["allowCredentials", "excludeCredentials"]) {
      if (options[name]) made[name] = options[name].map((one) => ({ ...one, id: bytes(one.id) }));
    }
    return made;
  };
  const answered = (credential) => {
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    return {
      id: credential.id,
      rawId: text(credential.rawId),
      type: credential.type,
      clientExtensionResults: credential.getClientExtensionResults(),
      response,
    };
  };

  const said = form.querySelector("[role=alert]");
  form.addEventListener("submit", async (event) => {
    if (form.elements.answer.value) return;
    event.preventDefault();
    // The page's own guard against a second click must not keep a person from trying again.
    const button = form.querySelector("button.first");
    said.hidden = true;
    try {
      const { publicKey } = JSON.parse(source.textContent);
      const options = { publicKey: asked(publicKey) };
      const ways = navigator.credentials;
      const credential = form.dataset.passkey === "create" ? await ways.create(options) : await ways.get(options);
      form.elements.answer.value = JSON.stringify(answered(credential));
      form.submit();
    } catch (error) {
      said.textContent =
        error.name === "InvalidStateError"
          ? "This device holds a passkey of this account already."
          : "The passkey was not used. Try again, or choose another way.";
      said.hidden = false;
      setTimeout(() => {
        button.disabled = false;
        button.removeAttribute("aria-busy");
      });
    }
  });
})();
