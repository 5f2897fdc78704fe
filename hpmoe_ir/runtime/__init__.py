"""What the generated code runs on: device headers, host side, CPU model."""
