"""Run-time support of generated code: device headers, host side, CPU model."""
