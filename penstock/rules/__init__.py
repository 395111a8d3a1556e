"""Pure arithmetic that both planes and verifiers share; imports no input, output or clock."""
