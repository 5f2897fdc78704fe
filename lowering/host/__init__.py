"""The host side of a queue program, and the project that the CANN toolkit builds."""
