;;; agent-q-markdown.el --- How the text of answers looks  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core reads the Markdown of an answer while it comes (src/markdown) and says
;; how its characters look.  This file has the faces and the text properties for
;; that.  The characters themselves stay what the model wrote, so an old answer can be
;; bare, without looks, until redisplay or a command comes to it.

;;; Code:

(require 'agent-q-code)
(require 'agent-q-link)
(require 'agent-q-pitch)
(require 'agent-q-table)
(require 'cl-lib)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Faces

(dolist (level '(1 2 3 4 5 6))
  (custom-declare-face
   (intern (format "agent-q-heading-%d" level))
   `((t :inherit ,(intern (format "outline-%d" level)) :weight bold))
   (format "Headings of level %d in answers." level)
   :group 'agent-q-faces))

(defface agent-q-strong '((t :inherit bold))
  "Strong emphasis in answers."
  :group 'agent-q-faces)

(defface agent-q-emphasis '((t :inherit italic))
  "Emphasis in answers."
  :group 'agent-q-faces)

(defface agent-q-strike '((t :strike-through t))
  "Face for struck-out text in answers."
  :group 'agent-q-faces)

(defface agent-q-inline-code '((t :inherit (agent-q-code font-lock-constant-face)))
  "Code within the lines of answers."
  :group 'agent-q-faces)

(defface agent-q-markup '((t :inherit shadow))
  "Markdown markup in answers."
  :group 'agent-q-faces)

(defface agent-q-quote '((t :inherit font-lock-doc-face))
  "Quotes in answers."
  :group 'agent-q-faces)

(defface agent-q-list-mark '((t :inherit font-lock-builtin-face))
  "The marks of the items of lists in answers."
  :group 'agent-q-faces)

(defface agent-q-table-head '((t :inherit bold))
  "The heads of tables in answers."
  :group 'agent-q-faces)

;;;; Hiding markup

(defcustom agent-q-hide-markup nil
  "Whether to hide Markdown markup in answers.
What you copy still has it.  This is for new chats;
\\[agent-q-toggle-markup] changes the current one."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defun agent-q-markdown-setup ()
  "Make the current buffer ready for answers."
  (setq buffer-invisibility-spec
        (if agent-q-hide-markup '(t agent-q-markup) '(t)))
  (add-hook 'fontification-functions #'agent-q-markdown-dress nil t)
  (agent-q-pitch-setup)
  (agent-q-table-watch))

;;;###autoload
(defun agent-q-toggle-markup ()
  "Hide Markdown markup in this chat, or show it again."
  (interactive)
  (if (memq 'agent-q-markup (ensure-list buffer-invisibility-spec))
      (remove-from-invisibility-spec 'agent-q-markup)
    (add-to-invisibility-spec 'agent-q-markup))
  (agent-q-table-refresh)
  (force-window-update (current-buffer)))

;;;; Styles

;; A style is a number of the core's; the same bits are in src/markdown/style.rs.

(defconst agent-q-markdown--faces
  '((0 . agent-q-strong) (1 . agent-q-emphasis) (2 . agent-q-strike)
    (3 . agent-q-inline-code) (8 . agent-q-markup) (9 . agent-q-markup)
    (11 . agent-q-list-mark) (14 . agent-q-table-head))
  "The faces of the bits of a style.")

(defvar agent-q-markdown--properties (make-hash-table)
  "The text properties of each style that was met.")

(defun agent-q-markdown--bit (style bit)
  "Whether BIT is set in STYLE."
  (/= 0 (logand style (ash 1 bit))))

(defun agent-q-markdown--bar ()
  "Return the sign at the left of quotes, as this terminal can show it."
  (if (char-displayable-p ?▌) "▌" "|"))

(defun agent-q-markdown--face (style)
  "Return the face or the faces of STYLE, or nil."
  (let ((faces (cl-loop for (bit . face) in agent-q-markdown--faces
                        when (agent-q-markdown--bit style bit) collect face))
        (heading (logand 7 (ash style -20)))
        (quoted (/= 0 (logand 15 (ash style -23)))))
    (when (agent-q-markdown--bit style 10)
      (push 'agent-q-markup faces))
    (when (and (agent-q-markdown--bit style 7) (not (memq 'agent-q-markup faces)))
      (push 'link faces))
    (when (/= heading 0)
      (setq faces (append faces (list (intern (format "agent-q-heading-%d" heading))))))
    (when (and quoted (not (agent-q-markdown--bit style 4)))
      (setq faces (append faces '(agent-q-quote))))
    ;; Code in lines of its own, and tables.
    (when (/= 0 (logand style (logior (ash 1 4) (ash 1 13))))
      (setq faces (append faces '(agent-q-code))))
    (if (cdr faces) faces (car faces))))

(defun agent-q-markdown--prefix (style)
  "Return how the lines of STYLE hang when they are wrapped, or nil."
  (let* ((depth (logand 15 (ash style -23)))
         (indent (logand 63 (ash style -27)))
         (bars (apply #'concat (make-list depth (concat (agent-q-markdown--bar) " "))))
         (code (if (agent-q-markdown--bit style 4) 2 0)))
    (when (> (+ indent depth code) 0)
      (concat (propertize bars 'face 'agent-q-markup)
              (make-string (max 0 (- (+ indent code) (length bars))) ?\s)))))

(defun agent-q-markdown--make-properties (style)
  "Return the text properties of STYLE."
  (let ((face (agent-q-markdown--face style))
        (prefix (agent-q-markdown--prefix style)))
    `(read-only t
      ,@(and face (list 'face face))
      ,@(and prefix (list 'wrap-prefix prefix))
      ,@(and (agent-q-markdown--bit style 8) '(invisible agent-q-markup))
      ,@(and (agent-q-markdown--bit style 16) '(agent-q-soft t))
      ,@(cond ((agent-q-markdown--bit style 5)
               '(agent-q-code t agent-q-gutter t line-prefix "  "))
              ((agent-q-markdown--bit style 4) '(agent-q-code t line-prefix "  "))
              ;; A model's line that begins like one of ours isn't ours.
              ((agent-q-markdown--bit style 15)
               (list 'line-prefix (propertize "| " 'face 'agent-q-markup)
                     'agent-q-disguise t)))
      ,@(and (agent-q-markdown--bit style 10)
             (list 'display (agent-q-markdown--bar))))))

(defun agent-q-markdown--of-style (style)
  "Return the text properties of STYLE."
  (or (gethash style agent-q-markdown--properties)
      (puthash style (agent-q-markdown--make-properties style)
               agent-q-markdown--properties)))

;;;; Old answers

;; The looks of an answer take far more memory than its text, and most of a long chat is
;; never seen again.

(defconst agent-q-markdown--kept '(30 . 50000)
  "The number of the latest answers that keep their looks, and of their characters.")

(defconst agent-q-markdown--longest-bare 30000
  "The number of characters from which on an answer keeps its looks.
It is read again as a whole, which takes 20 ms for so many.")

(defconst agent-q-markdown--undressed-at-once 8
  "Most answers whose looks are taken at a time.")

(defvar agent-q-markdown-past nil
  "Non-nil while an answer of an earlier time is put into the log, or read again.")

(defvar-local agent-q-markdown--dressed nil
  "The answers that have looks, those that got them latest first.
Each is a list of the markers of its start and end, and the width of its lines.")

(defun agent-q-markdown--ask-for-bare-only ()
  "Have redisplay ask for text properties only where an answer is bare.
Where jit-lock is used, it has to be asked about all text."
  (if (bound-and-true-p jit-lock-mode)
      (kill-local-variable 'default-text-properties)
    (setq-local default-text-properties '(fontified t))))

(defun agent-q-markdown--undress-old ()
  "Make old answers bare that are out of sight."
  (pcase-let ((`(,count . ,characters) agent-q-markdown--kept)
              (old nil))
    (pcase-dolist ((and answer `(,start ,end ,_)) agent-q-markdown--dressed)
      (when (and (or (<= count 0) (<= characters 0))
                 (< (- end start) agent-q-markdown--longest-bare)
                 (not (agent-q-markdown--in-sight-p start end)))
        (push answer old))
      (cl-decf count)
      (cl-decf characters (- end start)))
    (pcase-dolist ((and answer `(,start ,end ,width))
                   (seq-take old agent-q-markdown--undressed-at-once))
      (setq agent-q-markdown--dressed (delq answer agent-q-markdown--dressed))
      (agent-q-markdown--undress start end width)
      (set-marker start nil)
      (set-marker end nil))))

(defun agent-q-markdown--in-sight-p (start end)
  "Whether some of what is from START to END is in a window."
  (seq-some (lambda (window)
              (and (< start (window-end window)) (> end (window-start window))))
            (get-buffer-window-list nil t t)))

(defun agent-q-markdown--undress (start end width)
  "Make the answer from START to END bare; its lines are broken after WIDTH."
  (let ((soft nil) (place start))
    (while (setq place (text-property-any place end 'agent-q-soft t))
      (push place soft)
      (setq place (1+ place)))
    ;; As one stretch; each of those before would get a list of its own.
    (set-text-properties start end nil)
    ;; Neighbours differ in the list.
    (set-text-properties start end (list 'read-only t 'fontified nil
                                         'agent-q-bare (list width)))
    (dolist (place soft)
      (put-text-property place (1+ place) 'agent-q-soft t))))

(defun agent-q-markdown-dress (place)
  "Dress the answer at PLACE, if it is bare.
For `fontification-functions'."
  (when (and (< place (point-max)) (get-text-property place 'agent-q-bare))
    (save-match-data
      (save-excursion
        (save-restriction
          (widen)
          (with-silent-modifications
            (agent-q-markdown--read-again
             (previous-single-property-change (1+ place) 'agent-q-bare nil (point-min))
             (next-single-property-change place 'agent-q-bare nil (point-max)))))))))

(defun agent-q-markdown--read-again (start end)
  "Dress the bare answer from START to END."
  (let* ((width (car (get-text-property start 'agent-q-bare)))
         (document (agent-q-core-markdown-document width))
         (text (agent-q-markdown-written (buffer-substring start end)))
         (agent-q-markdown-past t))
    (push (list (copy-marker start) (copy-marker end) width) agent-q-markdown--dressed)
    (agent-q-markdown--apply start (cdr (agent-q-core-markdown-feed document text)) nil)
    (agent-q-markdown--apply start (cdr (agent-q-core-markdown-finish document)) t)))

(defun agent-q-markdown-written (text)
  "Return TEXT of the log as it was received, without properties."
  (let ((parts nil) (from 0))
    (while (let ((soft (text-property-any from (length text) 'agent-q-soft t text)))
             (push (substring text from soft) parts)
             (when soft
               (setq from (1+ soft)))))
    (substring-no-properties (apply #'concat (nreverse parts)))))

(defun agent-q-markdown-seek (property forward &optional limit)
  "Dress bare answers after point until one has the text property PROPERTY.
They are those before point unless FORWARD, and none beyond LIMIT."
  (let ((beyond (if forward #'> #'<))
        (next (if forward #'next-single-property-change #'previous-single-property-change))
        bare found)
    (while (and (setq bare (agent-q-markdown--next-bare forward))
                (not (and limit (funcall beyond bare limit)))
                (not (and (setq found (funcall next (point) property))
                          (funcall beyond bare found))))
      (agent-q-markdown-dress bare))))

(defun agent-q-markdown--next-bare (forward)
  "Return the next bare place after point, or before unless FORWARD, or nil."
  (if forward
      (text-property-not-all (point) (point-max) 'agent-q-bare nil)
    (let ((place (point)))
      (while (and place (> place (point-min))
                  (null (get-text-property (1- place) 'agent-q-bare)))
        (setq place (previous-single-property-change place 'agent-q-bare)))
      (and place (> place (point-min)) (1- place)))))

;;;; Texts that grow

(cl-defstruct (agent-q-markdown (:constructor agent-q-markdown--make) (:copier nil))
  "A text that grows: the core's DOCUMENT, and the marker START of its beginning.
Its lines are broken after WIDTH characters."
  document start width)

(defun agent-q-markdown-begin (start width)
  "Return a text that begins at START and whose lines are broken after WIDTH."
  (agent-q-markdown--ask-for-bare-only)
  (agent-q-markdown--make :document (agent-q-core-markdown-document width)
                          :start (copy-marker start) :width width))

(defun agent-q-markdown-grow (markdown text)
  "Insert TEXT at point, where MARKDOWN ends, and show it as Markdown.
Point is behind it then."
  (pcase-let ((`(,breaks . ,changes)
               (agent-q-core-markdown-feed (agent-q-markdown-document markdown) text))
              (from 0))
    (if (= (point) (agent-q-markdown-start markdown))
        (insert (propertize (substring text 0 1) 'read-only t)
                (propertize (substring text 1) 'read-only t))
      ;; Inheriting makes the stretch of properties longer instead of adding one.
      (if (null breaks)
          (insert-and-inherit text)
        (dolist (break breaks)
          (insert-and-inherit (substring text from break))
          (agent-q-markdown--break)
          (setq from break))
        (insert-and-inherit (substring text from))
        (setq breaks nil)))
    (when breaks
      ;; The first piece of an answer may be long, too.
      (goto-char (agent-q-markdown-start markdown))
      (cl-loop for break in breaks
               for more from 0
               do (goto-char (+ (agent-q-markdown-start markdown) break more))
               (agent-q-markdown--break))
      (goto-char (+ (agent-q-markdown-start markdown) (length text) (length breaks))))
    (unless agent-q-markdown-past
      (save-excursion
        (agent-q-markdown--apply (marker-position (agent-q-markdown-start markdown))
                                 changes (point))))))

(defun agent-q-markdown--break ()
  "Insert a line end that the model did not write."
  (insert (propertize "\n" 'read-only t 'agent-q-soft t 'rear-nonsticky '(agent-q-soft))))

(defun agent-q-markdown-end (markdown end)
  "Show all of MARKDOWN, which ends at END and doesn't grow any more."
  (let ((start (agent-q-markdown-start markdown))
        (width (agent-q-markdown-width markdown)))
    (if agent-q-markdown-past
        (progn (agent-q-markdown--undress start end width)
               (set-marker start nil))
      (save-excursion
        (agent-q-markdown--apply (marker-position start)
                                 (cdr (agent-q-core-markdown-finish
                                       (agent-q-markdown-document markdown)))
                                 nil))
      (push (list start (copy-marker end) width) agent-q-markdown--dressed)
      (agent-q-markdown--undress-old))))

(defun agent-q-markdown--apply (start news end)
  "Show the text that begins at START with NEWS, what the core said of it.
END is where the text ends that still grows, or nil when it is complete."
  (pcase-let* ((`(,from ,runs ,parts) news)
               (position (+ start from))
               (index 0)
               (count (length runs)))
    (while (< index count)
      (let ((end (+ position (aref runs index)))
            (properties (agent-q-markdown--of-style (aref runs (1+ index)))))
        ;; What was inherited is right most times, and stays one stretch then.
        (unless (and (= index 0)
                     (equal (text-properties-at position) properties)
                     (= (next-property-change position nil end) end))
          (set-text-properties position end properties))
        (setq position end
              index (+ index 2))))
    (dolist (part parts)
      (pcase part
        (`(link ,from ,to ,target)
         (agent-q-link-put (+ start from) (+ start to) target))
        (`(code ,from ,to ,language)
         (agent-q-code-closed (+ start from) (+ start to) language))
        (`(table . ,table)
         (agent-q-table-put start table end))))))

(provide 'agent-q-markdown)
;;; agent-q-markdown.el ends here
