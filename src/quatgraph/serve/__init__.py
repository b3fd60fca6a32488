"""The service: trained models over HTTP, and a web page to query them (extra ``[serve]``)."""
