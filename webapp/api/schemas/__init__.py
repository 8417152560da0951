"""Request and response schemas of the API. echoscope/models.py is generated from them (export_client_types)."""
