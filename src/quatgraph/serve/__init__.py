"""The service: trained models over HTTP, and the page that asks them (extra ``[serve]``)."""
