"""Planted errors: does a test notice, and does a finding?"""
