import express from 'express5';
import { serve } from './express-app.mjs';

serve(express);
